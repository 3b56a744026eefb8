"""Significance of differences between systems, and between groups of runs.

`compare_systems` compares files of translations by sacreBLEU's paired tests. `compare_groups`
compares groups of runs that differ only in their seeds.

Clark et al. (2011) compare systems over several training runs and all sentences of the test set.
They exchange the translations of single sentences, as if two runs of one system differed by chance
in single sentences only. A seed also shifts the score of its whole run, and that test takes such a
shift for a difference between systems. Here the statistic is divided by its standard error, which
contains the spread of the runs.

In simulated studies with 2 or 3 runs each the error rate is then 3% to 5% if the seeds of both
systems spread alike, for BLEU and for a ratio of counts, such as AER. If those of one spread four
times as far, it is 5% to 9% for BLEU, and up to 15% if that system has fewer runs than the other.
"""

# R runs of a group, S sentences, K sentence statistics

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seq2seq.evaluation.metrics import (
    DEFAULT_RULE,
    Array,
    ScoringRule,
    build_metrics,
    clip_score,
    corpus_bleu,
)

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.significance import Result

LEVEL = 0.05
"""A difference with a p-value below this level is significant."""
NUM_SAMPLES = 10_000
"""Samples of the stratified test."""
_NUM_RATIOS = 1_000_000
"""Ratios of chance, whose 95% quantile is then known to 0.3%."""
_POWER = 0.8
MAX_RUNS = 20
"""Runs of a group up to which the power of a study is told."""
_SEED = 12345
_CHUNK = 50
"""Samples of the stratified test that are computed at a time, which bounds the memory."""


Score = Callable[[Array], Array]


class GroupComparison(NamedTuple):
    """A group of runs compared with a baseline group on one test set."""

    effect: float
    """Mean score of the group minus that of the baseline."""
    interval: tuple[float, float]
    """95% confidence interval of the effect."""
    p_value: float
    """Two-sided p-value of the effect."""
    num_runs: int
    """Of the smaller group."""
    seed_variance: float
    """Variance of the effect over the seeds; 0 if a group has a single run."""
    sentence_variance: float
    """Variance of the effect over the sentences."""
    p_stratified: float | None
    """p-value of approximate randomisation stratified by seed (Clark et al. 2011), which says
    whether these runs differ and nothing about other seeds. None: the groups share no seed."""

    @property
    def covers_seeds(self) -> bool:
        """Return whether interval and p-value cover seeds and sentences.

        With a single run in a group they cover these runs on other sentences, and say nothing of
        other seeds.
        """
        return self.num_runs > 1

    def detectable(self, num_runs: int | None = None) -> float:
        """Return the effect that four of five such studies find, with so many runs in each group.

        Args:
            num_runs: None: as many as here; else from 2 to `MAX_RUNS`.
        """
        num_runs = num_runs or self.num_runs
        seed_variance = self.seed_variance * self.num_runs / num_runs
        return _power_ratio(num_runs) * float(np.sqrt(seed_variance + self.sentence_variance))

    def runs_for_half(self) -> int | None:
        """Return the number of runs in each group that find half the effect that these find.

        None: more than `MAX_RUNS`, or no number, because the sentences are too few.
        """
        half, more = self.detectable() / 2, range(self.num_runs + 1, MAX_RUNS + 1)
        return next((number for number in more if self.detectable(number) <= half), None)


def compare_groups(
    group: Array,
    baseline: Array,
    *,
    same_seeds: Sequence[tuple[int, int]] = (),
    num_samples: int = NUM_SAMPLES,
    score: Score = corpus_bleu,
    paired: bool = False,
) -> GroupComparison:
    """Test whether the mean score of a group of runs differs from that of a baseline.

    The statistic is the difference of the means divided by its standard error. The squared error is
    the variance between runs, divided by their number, plus the variance between sentences that all
    seeds share, by the jackknife (Efron and Stein 1981). Chance alone gives the same ratio for
    normally distributed scores of runs, which is Student's t if both groups have equally many runs.
    If a group has a single run, the error is that of the sentences and the ratio is normally
    distributed. The interval contains the effects that the test does not reject. Paired runs are
    one group of differences, so the ratio is Student's t with one degree of freedom less than runs.

    Nothing is drawn from the translations, so the same runs give the same digits.

    Args:
        group: (R, S, K), the `sentence_statistics` of each run.
        baseline: Likewise, of the same sentences; the number of runs may differ.
        same_seeds: Indices of a run of the group and a run of the baseline with the same seed.
        num_samples: Number of randomisations of the stratified test.
        score: Score of statistics (..., K) that are summed over the sentences.
        paired: Whether each run of the group is a run of the baseline after a change.

    Raises:
        ValueError: The groups were not scored on equally many sentences.
    """
    if group.shape[1] != baseline.shape[1]:
        sizes = f"{group.shape[1]} and {baseline.shape[1]}"
        raise ValueError(f"groups of {sizes} sentences cannot be compared; use one test set")
    sides = [_scores(group, score), tuple(-part for part in _scores(baseline, score))]
    if paired:
        sides = [tuple(one + other for one, other in zip(*sides, strict=True))]
    effect = float(sum(scores.mean() for scores, _ in sides))
    runs = tuple(len(scores) for scores, _ in sides)
    variances = _variances(sides)
    error = float(np.sqrt(sum(variances)))
    chance, largest = _chance_ratios(*runs)
    margin = largest * error
    # No effect without an error is no difference; any other is a certain one.
    ratio = 0.0 if abs(effect) < 1e-9 else abs(effect) / max(error, 1e-9)
    return GroupComparison(
        effect,
        (effect - margin, effect + margin),
        _p_value(ratio, chance),
        min(runs),
        *variances,
        _stratified(group, baseline, same_seeds, num_samples, score) if same_seeds else None,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values of several comparisons (Holm 1979).

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def p_text(p_value: float) -> str:
    """Return a p-value as text."""
    return f"{p_value:.3f}" if p_value >= 0.0005 else "<0.001"


@lru_cache(maxsize=8)
def _chance_ratios(*runs: int) -> tuple[Array, float]:
    """Return ratios of effect and error of groups that differ by chance alone, and a quantile.

    Ratios above the quantile are significant.
    """
    random = np.random.default_rng(_SEED)
    ratios = np.abs(random.standard_normal(_NUM_RATIOS))
    if min(runs) > 1:
        errors = [random.chisquare(n - 1, _NUM_RATIOS) / (n * (n - 1)) for n in runs]
        ratios *= np.sqrt(sum(1 / n for n in runs) / sum(errors))
    return ratios, float(np.quantile(ratios, 1 - LEVEL))


@cache
def _power_ratio(num_runs: int) -> float:
    """Return the ratio of an effect to its error that is found four times in five."""
    chance, largest = _chance_ratios(num_runs, num_runs)
    return largest + float(np.quantile(chance, 2 * _POWER - 1))


def _scores(runs: Array, score: Score) -> tuple[Array, ...]:
    """Return the score of each run, (R,), and the change by leaving out each sentence, (R, S)."""
    total = runs.sum(axis=1)
    left_out = score(total[:, None] - runs)
    return score(total), left_out - left_out.mean(axis=1, keepdims=True)


def _variances(sides: Sequence[tuple[Array, ...]]) -> tuple[float, float]:
    """Return the variance of the sum of the sides' mean scores over seeds, and over sentences.

    With several runs on each side, the part of the variance over sentences that also differs
    between the runs of a side is subtracted, because the variance over seeds contains it already.
    """
    of_sentences = float((sum(shares.mean(axis=0) for _, shares in sides) ** 2).sum())
    if min(len(scores) for scores, _ in sides) == 1:
        return 0.0, of_sentences
    of_seeds = sum(float(scores.var(ddof=1)) / len(scores) for scores, _ in sides)
    of_both = sum(float(each.var(axis=0, ddof=1).sum()) / len(each) for _, each in sides)
    return of_seeds, max(0.0, of_sentences - of_both)


def _stratified(
    group: Array,
    baseline: Array,
    same_seeds: Sequence[tuple[int, int]],
    num_samples: int,
    score: Score,
) -> float:
    """Return the p-value of exchanging single sentences between runs of the same seed."""
    random = np.random.default_rng(_SEED)
    first = group[[one for one, _ in same_seeds]]
    second = baseline[[other for _, other in same_seeds]]
    difference = second - first  # (R, S, K)
    observed = score(first.sum(axis=1)).mean() - score(second.sum(axis=1)).mean()
    effects = []
    for start in range(0, num_samples, _CHUNK):
        size = min(_CHUNK, num_samples - start)
        is_exchanged = random.integers(2, size=(len(first), size, first.shape[1]))
        change = is_exchanged.astype(np.float64) @ difference  # (R, samples, K)
        one = score(first.sum(axis=1)[:, None] + change).mean(axis=0)
        other = score(second.sum(axis=1)[:, None] - change).mean(axis=0)
        effects.append(np.abs(one - other))
    return _p_value(float(observed), np.concatenate(effects))


def _p_value(observed: float, random_effects: Array) -> float:
    """Return the share of effects as large as the observed one, which is counted too."""
    as_large = int((random_effects >= abs(observed) - 1e-9).sum())
    return (as_large + 1) / (len(random_effects) + 1)


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
    # A study is compared without these.
    from sacrebleu.significance import PairedTest

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
    metrics: "dict[str, Metric]",
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


def _metric_scores(name: str, results: "Sequence[Result | str]") -> list[MetricScore]:
    """Convert the results of a test; a system with the same score as the first has p = 1.

    sacreBLEU counts only larger differences, so it reports p near 0 for two equal systems.
    """
    from sacrebleu.significance import Result

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
