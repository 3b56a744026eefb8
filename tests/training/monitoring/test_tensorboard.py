import math

import pytest
import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tiny_training import event_files, read_scalars, read_tags, tiny_config

from seq2seq.data import CharacterTokenizer, TokenizerPair
from seq2seq.evaluation.attention_statistics import HeadStatistics
from seq2seq.evaluation.metrics import Scores
from seq2seq.search import Hypothesis
from seq2seq.training.evaluator import Alignment, Evaluation
from seq2seq.training.monitoring.tensorboard import TensorBoard, draw_results
from seq2seq.training.progress import Interval, Progress

HEADS = [
    HeadStatistics(0.5, 0.25, 0.75, 0.125),
    HeadStatistics(1.5, 0.5, 0.375, 0.625),
    HeadStatistics(4.0, 0.75, 0.0, 0.5),
]


def evaluation(*, num_heads: int = 2, aligned: bool = True) -> Evaluation:
    return Evaluation(
        scores=Scores(bleu=12.34, chrf=45.67, ter=None, signature="nrefs:1"),
        loss=1.5,
        heads=[
            head if aligned else head._replace(alignment_error_rate=None)
            for head in HEADS[:num_heads]
        ],
        alignment=Alignment(0.25, 0.75) if aligned else None,
        hypotheses=[
            Hypothesis([4, 5], -1.0, -1.0, True, torch.full((num_heads, 3, 2), 0.5)),
            Hypothesis([4, 4], -1.0, -1.0, False, torch.full((num_heads, 2, 2), 0.5)),
        ],
        translations=["xy", "xx"],
    )


class FakeEvaluator:
    """Knows the sentences of a validation."""

    tokenizers = TokenizerPair(CharacterTokenizer("ab"), CharacterTokenizer("xy"))

    class data:  # noqa: N801 -- stands for an attribute
        sources = ("a", "b")
        references = ("xy", "yx")

        class encoded:  # noqa: N801 -- stands for an attribute
            @staticmethod
            def source(index: int) -> torch.Tensor:
                return torch.tensor([4 + index])


def draw(board: TensorBoard, loss: float, *, update: int) -> None:
    interval = Interval(updates=1, target_tokens=2, cross_entropy=2 * loss, seconds=0.5)
    board.updates(interval, learning_rate=0.1, teacher_forcing_ratio=1.0, update=update)


@pytest.mark.parametrize(("num_guided", "coverage_loss"), [(0, 0.0), (3, 2.5)])
def test_an_interval_draws_its_means(tmp_path, num_guided, coverage_loss):
    interval = Interval(
        updates=2,
        target_tokens=5,
        cross_entropy=7.5,
        gradient_norm=0.6,
        guided_loss=0.75,
        num_guided=num_guided,
        coverage_loss=coverage_loss,
        seconds=0.25,
    )

    with TensorBoard(tmp_path, first_update=1) as board:
        board.updates(interval, learning_rate=0.1, teacher_forcing_ratio=0.9, update=4)

    points = {tag: curve[4] for tag, curve in read_scalars(tmp_path).items()}
    expected = {
        "train/loss": 1.5,
        "train/perplexity": math.exp(1.5),
        "train/learning_rate": 0.1,
        "train/gradient_norm": 0.3,
        "train/target_tokens_per_second": 20.0,
        "train/teacher_forcing_ratio": 0.9,
    }
    losses = {"train/guided_attention_loss": 0.25, "train/coverage_loss": 0.5}
    assert points == pytest.approx(expected | (losses if num_guided else {}))


@pytest.mark.parametrize(("overflows", "expected"), [(1, {4: 0.6}), (2, {})])
def test_the_norm_is_the_mean_of_updates_without_overflow(tmp_path, overflows, expected):
    interval = Interval(
        updates=2,
        target_tokens=5,
        cross_entropy=7.5,
        gradient_norm=0.6 if overflows == 1 else 0.0,
        overflows=overflows,
        seconds=0.25,
    )

    with TensorBoard(tmp_path, first_update=1) as board:
        board.updates(interval, learning_rate=0.1, teacher_forcing_ratio=0.9, update=4)

    assert read_scalars(tmp_path).get("train/gradient_norm", {}) == pytest.approx(expected)


def test_points_from_the_first_update_on_are_replaced(tmp_path):
    for first, updates in ((1, (1, 2, 3)), (3, (3, 4))):
        with TensorBoard(tmp_path, first_update=first) as board:
            for update in updates:
                draw(board, first + update / 10, update=update)

    points = read_scalars(tmp_path)["train/loss"]
    assert points == pytest.approx({1: 1.1, 2: 1.2, 3: 3.3, 4: 3.4})


def test_the_results_of_a_later_end_replace_those_of_an_earlier_one(tmp_path):
    path = tmp_path / "board"
    with TensorBoard(path, first_update=1) as board:
        draw(board, 0.5, update=1)
    config = tiny_config(tmp_path)
    for update, bleu in ((1, 10.0), (1, 10.0), (2, 12.5)):
        draw_results(path, config, {"test/bleu": bleu}, update=update)

    events = [event for file in event_files(path) for event in EventFileLoader(str(file)).Load()]
    tags = [value.tag for event in events for value in event.summary.value]
    assert tags.count("test/bleu") == tags.count("_hparams_/session_start_info") == 1
    points = read_scalars(path)
    assert (points["test/bleu"], points["train/loss"]) == ({2: 12.5}, {1: 0.5})


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with TensorBoard(None, first_update=1) as board:
        draw(board, 0.5, update=1)
        board.validation(evaluation(), update=1)
        board.samples(evaluation(), FakeEvaluator(), num_samples=2, update=1)
        board.flush()

    assert list(tmp_path.iterdir()) == []


def test_a_validation_draws_its_scores_and_each_head(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=3), update=7)

    points = {tag: curve[7] for tag, curve in read_scalars(tmp_path).items()}
    assert points == pytest.approx(
        {
            "valid/loss": 1.5,
            "valid/perplexity": 4.4816891,
            "valid/bleu": 12.34,
            "valid/chrf": 45.67,
            "valid/attention/entropy": 2.0,
            "valid/attention/entropy/head_1": 0.5,
            "valid/attention/entropy/head_2": 1.5,
            "valid/attention/entropy/head_3": 4.0,
            "valid/attention/coverage": 0.5,
            "valid/attention/coverage/head_1": 0.25,
            "valid/attention/coverage/head_2": 0.5,
            "valid/attention/coverage/head_3": 0.75,
            "valid/attention/sharpness": 0.375,
            "valid/attention/sharpness/head_1": 0.75,
            "valid/attention/sharpness/head_2": 0.375,
            "valid/attention/sharpness/head_3": 0.0,
            "valid/alignment_error_rate": 0.25,
            "valid/attention/alignment_error_rate/head_1": 0.125,
            "valid/attention/alignment_error_rate/head_2": 0.625,
            "valid/attention/alignment_error_rate/head_3": 0.5,
        }
    )


def test_a_single_head_has_no_curves_beside_those_of_the_mean(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=1), update=7)

    assert {tag for tag in read_tags(tmp_path) if "attention" in tag} == {
        "valid/attention/entropy",
        "valid/attention/coverage",
        "valid/attention/sharpness",
    }


def test_without_gold_alignments_no_error_rate_is_drawn(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=2, aligned=False), update=7)

    assert not [tag for tag in read_tags(tmp_path) if "alignment_error_rate" in tag]


@pytest.mark.parametrize(("num_heads", "is_drawn"), [(0, False), (1, False), (2, True)])
def test_a_figure_compares_several_heads(tmp_path, num_heads, is_drawn):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=num_heads), update=7)

    assert ("valid/attention/heads" in read_tags(tmp_path)) is is_drawn


def test_without_heads_no_attention_is_drawn(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=0, aligned=False), update=7)

    assert read_scalars(tmp_path).keys() == {
        "valid/loss",
        "valid/perplexity",
        "valid/bleu",
        "valid/chrf",
    }


@pytest.mark.parametrize(
    ("num_heads", "maps"), [(0, []), (1, [""]), (3, ["/head_1", "/head_2", "/head_3"])]
)
def test_samples_are_texts_and_one_map_per_head(tmp_path, num_heads, maps):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.samples(evaluation(num_heads=num_heads), FakeEvaluator(), num_samples=9, update=3)

    tags = read_tags(tmp_path)
    assert {f"text/valid_{index}/text_summary" for index in range(2)} <= tags
    drawn = {tag for tag in tags if tag.startswith("attention/")}
    assert drawn == {f"attention/valid_{index}{head}" for index in range(2) for head in maps}


def test_an_update_has_its_place_in_minutes_and_target_tokens(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.position("valid", Progress(update=4, seconds=90.0, target_tokens=123))

    assert read_scalars(tmp_path) == {
        "valid/minutes": {4: 1.5},
        "valid/target_tokens": {4: 123.0},
    }
