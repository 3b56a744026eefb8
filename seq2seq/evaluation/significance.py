"""Scores of several systems on one test set, with paired significance tests."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from seq2seq.evaluation.bleu_tokenize import DEFAULT_RULE, ScoringRule
from seq2seq.evaluation.metrics import build_metrics, clip_score


class Significance(Enum):
    """A paired test of sacreBLEU, which compares each system with the first."""

    bootstrap = "bootstrap"
    """Bootstrap resampling (Koehn 2004), which also gives confidence intervals."""
    approximate_randomization = "approximate_randomization"
    """Approximate randomization (Riezler and Maxwell 2005)."""


class MetricScore(NamedTuple):
    """The score of one system by one metric."""

    score: float
    """Score of the whole text, in percent."""
    mean: float | None
    """Mean over bootstrap resamples; None without them."""
    interval: float | None
    """Half the width of the 95% confidence interval around the mean; None without resamples."""
    p_value: float | None
    """p-value of the difference from the first system; None for the first."""


class SystemScores(NamedTuple):
    """Scores of systems and the signatures of the metrics."""

    names: Sequence[str]
    """Names of the systems."""
    scores: dict[str, list[MetricScore]]
    """Scores of the systems, in the order of their names, for each metric."""
    signatures: dict[str, str]
    """sacreBLEU's signature of each metric; only scores with equal signatures are comparable."""


_TESTS = {Significance.bootstrap: "bs", Significance.approximate_randomization: "ar"}


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    *,
    significance: Significance,
    num_samples: int | None,
    rule: ScoringRule = DEFAULT_RULE,
) -> SystemScores:
    """Score systems with BLEU, chrF2 and TER, and test whether they differ from the first.

    Args:
        systems: Names and detokenised translations; a single system is scored without a test.
        references: One or more reference texts, each with one line for each translation.
        significance: The paired test.
        num_samples: Number of resamples or permutations; None for sacreBLEU's default.
        rule: Tokenizer of BLEU, and whether BLEU and chrF2 ignore the case of letters.

    Raises:
        ValueError: The tokenizer needs a package that is not installed.

    Example:
        >>> references = [["A dog runs.", "Two men sit."]]
        >>> systems = [("a", ["A dog runs.", "Two men stand."]), ("b", ["A cat.", "Men."])]
        >>> found = compare_systems(
        ...     systems, references, significance=Significance.bootstrap, num_samples=50
        ... )
        >>> [round(each.score, 1) for each in found.scores["chrf"]]
        [76.6, 7.2]
    """
    metrics = build_metrics(rule)
    if len(systems) == 1:
        return _score_alone(*systems[0], metrics, references)
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
        [name for name, _ in systems],
        {name: _metric_scores(name, results[title]) for name, title in titles.items()},
        {name: str(signatures[title]) for name, title in titles.items()},
    )


def _score_alone(
    system: str,
    lines: Sequence[str],
    metrics: dict[str, Metric],
    references: Sequence[Sequence[str]],
) -> SystemScores:
    """Score a single system, which cannot be compared with another."""
    values = {
        name: clip_score(name, metric.corpus_score(lines, references).score)
        for name, metric in metrics.items()
    }
    return SystemScores(
        [system],
        {name: [MetricScore(value, None, None, None)] for name, value in values.items()},
        {name: str(metric.get_signature()) for name, metric in metrics.items()},
    )


def _metric_scores(name: str, results: Sequence[Result | str]) -> list[MetricScore]:
    """Convert the results of a test; a system with the same score as the first has p = 1.

    sacreBLEU counts only larger differences, so it reports p near 0 for two equal systems.
    """
    scores: list[MetricScore] = []
    for result in results:
        assert isinstance(result, Result)
        score = clip_score(name, float(result.score))
        mean = None if result.mean is None else clip_score(name, float(result.mean))
        p_value = 1.0 if scores and score == scores[0].score else _plain(result.p_value)
        scores.append(MetricScore(score, mean, _plain(result.ci), p_value))
    return scores


def _plain(value: float | None) -> float | None:
    """Convert a NumPy number, which JSON cannot represent, to a Python float."""
    return None if value is None else float(value)
