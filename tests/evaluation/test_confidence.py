"""The chrF expected from a translation's log-probability."""

import numpy as np
import pytest

from seq2seq.evaluation.confidence import (
    Confidence,
    ExpectedQuality,
    Outcomes,
    choose_confidence,
    fit_confidence,
    rank_correlation,
)
from seq2seq.evaluation.measures import MEASURES, Sentences, measure, outcomes, total_scores


def some_outcomes(number: int, *, noise: float, seed: int = 1) -> Outcomes:
    """Return translations whose chrF rises with their certainty, with some noise."""
    random = np.random.default_rng(seed)
    certainty = -random.random(number) * 2
    return Outcomes(certainty, (80 + 30 * certainty + noise * random.standard_normal(number)))


def test_the_line_is_that_of_the_normal_equations() -> None:
    certainty, chrf = found = some_outcomes(300, noise=9.0)
    roots = np.sqrt(np.exp(certainty))
    matrix = np.stack([roots, np.ones(300)], axis=1)
    slope, intercept = np.linalg.solve(matrix.T @ matrix, matrix.T @ chrf)
    line = fit_confidence(found)
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept))
    residuals = chrf - intercept - slope * roots
    assert line.spread == pytest.approx(np.sqrt((residuals**2).mean()))
    expected = np.sort(intercept + slope * roots)
    assert line.mean == pytest.approx(chrf.mean())
    assert line.first_fifth == pytest.approx(expected[:60].mean())


def test_the_expected_chrf_stays_between_0_and_100() -> None:
    line = Confidence(200.0, -30.0, 10.0, 60.0, 40.0)
    certainties = (-9.0, 2 * np.log(0.5), -0.1)
    assert list(map(line.expected_chrf, certainties)) == pytest.approx([0.0, 70.0, 100.0])


def test_the_lines_to_read_first_are_those_with_the_lowest_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ExpectedQuality(Confidence(40.0, 90.0, 9.0, 60.0, 40.0))
    for number, value in enumerate((50.0, None, 20.0, 80.0, 20.0, 70.0, 90.0), start=1):
        expected.add(value, f"{number}")
    with caplog.at_level("INFO"):
        expected.report()
    assert caplog.messages == [
        "expected chrF 55; text of the training's kind has 60; read first: lines 3, 5, 1, 6, 4"
    ]


@pytest.mark.parametrize(("value", "is_unlike"), [(41.0, False), (39.0, True)])
def test_text_below_the_first_fifth_is_unlike_the_training_text(
    value: float, is_unlike: bool, caplog: pytest.LogCaptureFixture
) -> None:
    expected = ExpectedQuality(Confidence(40.0, 90.0, 9.0, 60.0, 40.0))
    expected.add(value, "1")
    with caplog.at_level("INFO"):
        expected.report()
    assert ("unlike the training text" in caplog.text) is is_unlike


def test_the_rank_correlation_counts_equal_values_as_spearman_does() -> None:
    # Ranks 0, 1.5, 1.5, 3 and 2, 0.5, 0.5, 3: deviations -1.5, 0, 0, 1.5 and .5, -1, -1, 1.5.
    one, other = np.array([1.0, 5.0, 5.0, 9.0]), np.array([7.0, 3.0, 3.0, 8.0])
    assert rank_correlation(one, other) == pytest.approx(1.5 / np.sqrt(4.5 * 4.5))
    assert rank_correlation(one, np.ones(4)) == 0


@pytest.mark.parametrize(
    ("valid", "test", "said"),
    [
        (some_outcomes(199, noise=1.0), None, "199 validation pairs"),
        (some_outcomes(200, noise=900.0), None, "on the validation set, "),
        (some_outcomes(200, noise=1.0), some_outcomes(200, noise=900.0), "on the test set, "),
        (Outcomes(np.zeros(200), np.arange(200.0)), None, "on the validation set, 0.00"),
    ],
)
def test_nothing_is_kept_that_says_too_little(
    valid: Outcomes, test: Outcomes | None, said: str
) -> None:
    line, message = choose_confidence(valid, test)
    assert line is None
    assert message.startswith("no expected chrF: ") and said in message


def test_the_sentence_for_the_log_judges_the_test_set() -> None:
    valid, test = some_outcomes(200, noise=9.0), some_outcomes(100, noise=9.0, seed=2)
    line, message = choose_confidence(valid, test)
    assert line == fit_confidence(valid)
    lowest, worst = (
        set(np.argsort(each)[:most]) for each, most in zip(test, (20, 10), strict=True)
    )
    assert message == (
        f"expected chrF: rank correlation {rank_correlation(*test):.2f} on the test set; the 20% "
        f"with the lowest values contain {len(lowest & worst) / 10:.0%} of the worst tenth"
    )


def test_the_measure_is_the_rank_correlation_of_the_corpus() -> None:
    texts = ["a dog runs", "a dog", "the cat sleeps", "a cow eats", "no dog"]
    references = ["a dog runs", "a cat", "the cat sleeps on it", "grass", "no dog runs"]
    certainty = [(-1.0, 5), (-3.0, 3), (-2.5, 4), (-6.0, 4), (-1.2, 3)]
    statistics = measure(
        Sentences(translations=texts, references=[references], certainty=certainty)
    )
    found = outcomes(statistics)
    assert found.certainty == pytest.approx([total / number for total, number in certainty])
    chrf = MEASURES["chrf"].score(statistics["chrf"][:, 0])
    differences = np.argsort(np.argsort(found.certainty)) - np.argsort(np.argsort(chrf))
    expected = 1 - 6 * (differences**2).sum() / (5 * 24)  # of five values, none equal
    assert rank_correlation(*found) == pytest.approx(expected)
    assert total_scores(statistics)["certainty_correlation"] == pytest.approx(expected)


def test_the_measure_is_0_if_all_translations_are_equally_certain() -> None:
    texts = ["a dog runs", "a dog", "the cat sleeps"]
    sentences = Sentences(translations=texts, references=[texts], certainty=[(-1.0, 5)] * 3)
    assert total_scores(measure(sentences)).get("certainty_correlation", 0) == 0
