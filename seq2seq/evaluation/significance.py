"""Scores of several systems on one test set, and whether they differ significantly."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from sacrebleu.significance import PairedTest, Result

from seq2seq.evaluation.metrics import build_metrics


class Significance(Enum):
    """sacreBLEU's paired tests, which compare each system with the first."""

    bootstrap = "bootstrap"
    """Resampling with replacement (Koehn 2004); also gives confidence intervals."""
    approximate_randomization = "approximate_randomization"
    """Exchange of sentences between two systems (Riezler and Maxwell 2005)."""


class MetricScore(NamedTuple):
    """The score of one system by one metric."""

    score: float
    mean: float | None
    """over resamples of the lines; None without resampling"""
    interval: float | None
    """half the width of the 95% interval around the mean"""
    p_value: float | None
    """of the difference from the first system; None for the first"""


class SystemScores(NamedTuple):
    """The scores of systems, and how they were computed."""

    names: Sequence[str]
    scores: dict[str, list[MetricScore]]
    """by metric, one for each name"""
    signatures: dict[str, str]
    """sacreBLEU's, by metric; only scores with equal signatures are comparable"""


_TESTS = {Significance.bootstrap: "bs", Significance.approximate_randomization: "ar"}


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    *,
    significance: Significance,
    num_samples: int | None,
) -> SystemScores:
    """Score systems with BLEU, chrF2 and TER, and test whether they differ from the first.

    Args:
        systems: Names and detokenised translations; a single system is only scored.
        references: One or more texts, each with a line for each translation.
        significance: The paired test.
        num_samples: Number of resamples or permutations; None for sacreBLEU's default.
    """
    metrics = build_metrics()
    names = [name for name, _ in systems]
    if len(systems) == 1:
        lines = systems[0][1]
        totals = {name: metric.corpus_score(lines, references) for name, metric in metrics.items()}
        return SystemScores(
            names,
            {name: [MetricScore(total.score, None, None, None)] for name, total in totals.items()},
            {name: str(metric.get_signature()) for name, metric in metrics.items()},
        )
    test = PairedTest(
        list(systems),
        metrics,
        references,
        test_type=_TESTS[significance],
        n_samples=num_samples or 0,
    )
    signatures, results = test()
    # The test names the metrics differently but keeps their order.
    titles = dict(zip(metrics, signatures, strict=True))
    return SystemScores(
        names,
        {name: _metric_scores(results[title]) for name, title in titles.items()},
        {name: str(signatures[title]) for name, title in titles.items()},
    )


def _metric_scores(results: Sequence[Result | str]) -> list[MetricScore]:
    """Convert the results of a test; a system with the score of the first has p = 1.

    sacreBLEU counts only larger differences, and so reports p near 0 for two equal systems.
    """
    scores: list[MetricScore] = []
    for result in results:
        assert isinstance(result, Result)
        p_value = _plain(result.p_value)
        if scores and result.score == scores[0].score:
            p_value = 1.0
        scores.append(
            MetricScore(float(result.score), _plain(result.mean), _plain(result.ci), p_value)
        )
    return scores


def _plain(value: float | None) -> float | None:
    """Convert a NumPy number, which JSON cannot represent, to a Python float."""
    return None if value is None else float(value)
