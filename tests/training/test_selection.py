from types import SimpleNamespace

import pytest

from seq2seq.config.training import Metric
from seq2seq.training.progress import Progress
from seq2seq.training.selection import count_zero_score, metric_value


def evaluation(*, bleu: float = 20.0, chrf: float = 40.0, loss: float = 2.0) -> SimpleNamespace:
    return SimpleNamespace(scores=SimpleNamespace(bleu=bleu, chrf=chrf), loss=loss)


@pytest.mark.parametrize(
    ("metric", "expected"), [(Metric.bleu, 20.0), (Metric.chrf, 40.0), (Metric.loss, -2.0)]
)
def test_a_higher_value_is_better_by_every_metric(metric, expected):
    assert metric_value(evaluation(), metric) == expected


@pytest.mark.parametrize(("metric", "least"), [(Metric.bleu, 1.0), (Metric.chrf, 0.005)])
def test_a_score_near_zero_is_ranked_by_loss_below_every_other_score(metric, least):
    values = [
        metric_value(evaluation(bleu=score, chrf=score, loss=loss), metric)
        for score, loss in ((0.0, 7.0), (0.9 * least, 3.0), (0.0, 2.0), (least, 9.0))
    ]

    assert values == sorted(values)
    assert values == [-7.0, -3.0, -2.0, least]


def test_the_warning_comes_with_the_second_zero_and_no_other(caplog):
    progress, lengths = Progress(), []

    for value in (-3.0, 5.0, -2.0, -1.0):
        count_zero_score(progress, value, Metric.chrf)
        lengths.append(len(caplog.records))

    assert lengths == [0, 0, 1, 1]
    assert "chrf is below 0.005" in caplog.text
    assert caplog.text.rstrip().endswith("set training.validation.metric=loss")
    assert progress.zero_scores == 3


def test_the_loss_is_never_a_score_of_zero(caplog):
    progress = Progress()

    for _ in range(3):
        count_zero_score(progress, -2.0, Metric.loss)

    assert progress.zero_scores == 0
    assert not caplog.records
