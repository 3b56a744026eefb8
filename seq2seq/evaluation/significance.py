"""Significance of differences between systems, and between groups of runs.

`compare_systems` compares files of translations by sacreBLEU's approximate randomization, but also
counts the permutations in which the difference is as large as the real one. If few sentences
differ, most permutations are of this kind, and sacreBLEU's own p-value is almost 0.
sacreBLEU's paired bootstrap is not offered: it counts only the resamples in which the difference is
larger than expected, not those in which it is smaller, so its p-value is half of a two-sided
p-value. `compare_groups` compares groups of runs that differ only in their seeds.

Clark et al. (2011) compare systems over several training runs and all sentences of the test set.
They exchange the translations of single sentences, as if two runs of one system differed by chance
in single sentences only. A seed also shifts the score of its whole run, and their test mistakes
such a shift for a difference between systems. Here the statistic is divided by its standard error,
which contains the spread of the runs.

In simulated studies of systems that do not differ, at most 7% of the p-values are below 0.05, even
if the seeds of one system spread four times as far as the seeds of the other. With two runs of one
system and more of the other, at most 2% are. With two or three runs of each system, at most 1.6%
are below 0.05 / 9, the first level of Holm's procedure for nine comparisons. With three runs
that spread widely and up to ten that do not, up to 2.3% are. If the seeds spread over most of the
scale of BLEU, their scores are far from normally distributed, and up to 9% are below 0.05.
"""

# R runs of a group, S sentences, K sentence statistics

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq.evaluation.measures import MEASURES, OF_TEXT, Sentences, measure, score_texts
from seq2seq.evaluation.metrics import DEFAULT_RULE, Array, ScoringRule, corpus_bleu, signature

LEVEL = 0.05
"""A difference with a p-value below this level is significant."""
SENTENCES_ONLY = "these sentences only, not other seeds"
"""The scope of a p-value if one of the groups has a single run."""
_SEED, _NUM_PERMUTATIONS, _NUM_RESAMPLES = 12345, 10_000, 1000
"""sacreBLEU's values for its tests."""

Score = Callable[[Array], Array]


class GroupComparison(NamedTuple):
    """A group of runs compared with a baseline group on one test set."""

    effect: float
    """Mean score of the group minus the mean score of the baseline."""
    error: float
    """Standard error of the effect over seeds and sentences."""
    degrees: float
    """Degrees of freedom of the error."""
    num_runs: int
    """Number of runs in the smaller group."""
    p_value: float
    """Two-sided p-value of the effect."""
    p_corrected: float
    """p-value after `correct`; equals `p_value` before the correction."""
    level: float = LEVEL
    """Level of the test, which `correct` lowers."""

    @property
    def covers(self) -> str:
        """Return what interval and p-value cover.

        With a single run in a group, they say nothing about other seeds.
        """
        return SENTENCES_ONLY if self.num_runs == 1 else "seeds and sentences"

    @property
    def interval(self) -> tuple[float, float]:
        """Return the effects that the test does not reject: 95% before `correct`."""
        from scipy.special import stdtrit  # this import takes most of a second

        margin = float(stdtrit(self.degrees, 1 - self.level / 2)) * self.error
        return self.effect - margin, self.effect + margin


def compare_groups(
    group: Array, baseline: Array, *, score: Score = corpus_bleu, paired: bool = False
) -> GroupComparison:
    """Test whether the mean scores of a group of runs and of a baseline differ.

    The statistic is the difference of the means divided by its standard error, and is compared with
    Student's t. The squared error is the variance between the runs of each group, divided by their
    number, plus the variance between sentences that all seeds share, by the jackknife (Efron and
    Stein 1981). The groups may spread differently, so the degrees of freedom are those of Welch and
    Satterthwaite, rounded down. If a group has two or three runs, there is at most one degree more
    than the seeds have, because so few runs may agree by chance. If one group has two runs and the
    other has more, there is one degree, because two runs cannot show that they spread more than the
    other group. If a group has a single run, the error covers only the sentences.

    Paired runs are one group of differences; two pairs also have one degree. A few seeds are
    enough to show a change many times as large as the spread of the seeds; smaller changes need
    more seeds.

    Nothing is resampled, so the same runs always give the same digits.

    Args:
        group: The statistics of a measure for each run, (R, S, K).
        baseline: Statistics for the same sentences; the number of runs may differ.
        score: Score of statistics (..., K) that are summed over the sentences.
        paired: Whether each run of the group is the corresponding run of the baseline after a
            change.

    Raises:
        ValueError: The groups were scored on different numbers of sentences.
    """
    from scipy.special import stdtr  # this import takes most of a second

    if group.shape[1] != baseline.shape[1]:
        sizes = f"{group.shape[1]} and {baseline.shape[1]}"
        raise ValueError(f"groups of {sizes} sentences cannot be compared; use one test set")
    sides = [_scores(group, score), tuple(-part for part in _scores(baseline, score))]
    if paired:
        sides = [tuple(one + other for one, other in zip(*sides, strict=True))]
    effect = float(sum(scores.mean() for scores, _ in sides))
    variance, degrees = _variance(sides)
    # One sentence does not show how much sentences differ, so it proves nothing.
    error = float(np.sqrt(variance)) if group.shape[1] > 1 else np.inf
    # With an error of 0, an effect of 0 is no difference, and any other effect is certain.
    ratio = 0.0 if abs(effect) < 1e-9 else abs(effect) / max(error, 1e-9)
    p_value = 2 * float(stdtr(degrees, -ratio))
    num_runs = min(len(scores) for scores, _ in sides)
    return GroupComparison(effect, error, degrees, num_runs, p_value, p_value)


def correct(family: Sequence[GroupComparison]) -> list[GroupComparison]:
    """Correct the p-values of several comparisons and their intervals (Holm 1979).

    Holm's procedure tests the smallest of n p-values at `LEVEL` / n, the next one at
    `LEVEL` / (n - 1) and so on, and stops at the first that is not significant. Each interval has
    the level at which its comparison was tested (Ludbrook 2000). Intervals of comparisons that are
    not significant have the level at which the procedure stopped. So an interval excludes 0 if and
    only if the corrected p-value is below `LEVEL`. Bonferroni's intervals with Holm's p-values
    would not agree, and Bonferroni's p-values would find fewer differences.
    """
    p_values = [each.p_value for each in family]
    corrected = holm(p_values)
    num_significant = sum(p_value < LEVEL for p_value in corrected)
    found = []
    for each, p_value in zip(family, corrected, strict=True):
        before = min(num_significant, sum(other < each.p_value for other in p_values))
        level = LEVEL / (len(family) - before)
        found.append(each._replace(p_corrected=p_value, level=level))
    return found


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


def p_text(p_value: float, covers: str = "") -> str:
    """Return a p-value as text, a dash if there is none; a star says that it covers
    `SENTENCES_ONLY`."""
    if np.isnan(p_value):
        return "-"
    star = "*" if covers == SENTENCES_ONLY else ""
    text = f"{p_value:.3f}" if p_value >= 0.0005 else "<0.001"
    is_rounded_up = p_value < LEVEL <= float(text.removeprefix("<"))  # to what is not significant
    return (f"<{LEVEL}" if is_rounded_up else text) + star


def _scores(runs: Array, score: Score) -> tuple[Array, ...]:
    """Return the score of each run, (R,), and its change if a sentence is left out, (R, S)."""
    total = runs.sum(axis=1)
    left_out = score(total[:, None] - runs)
    return score(total), left_out - left_out.mean(axis=1, keepdims=True)


def _variance(sides: Sequence[tuple[Array, ...]]) -> tuple[float, float]:
    """Return the variance of the sum of the sides' mean scores, and its degrees of freedom.

    With several runs on each side, the part of the variance over sentences that also differs
    between the runs of a side is subtracted, because the variance over seeds contains it already.
    """
    of_sentences = float((sum(shares.mean(axis=0) for _, shares in sides) ** 2).sum())
    num_sentences = sides[0][1].shape[1]
    runs = [len(scores) for scores, _ in sides]
    if min(runs) == 1:
        return of_sentences, max(1, num_sentences - 1)
    of_seeds = [float(scores.var(ddof=1)) / len(scores) for scores, _ in sides]
    of_both = sum(float(each.var(axis=0, ddof=1).sum()) / len(each) for _, each in sides)
    shared = max(0.0, of_sentences - of_both)
    variance = sum(of_seeds) + shared
    if min(runs) == 2 and runs != [2, 2]:
        return variance, 1
    parts = zip([*of_seeds, shared], [*runs, num_sentences], strict=True)
    squares = sum(part**2 / max(1, number - 1) for part, number in parts)
    least = min(runs) - 1  # rounding can make the quotient smaller
    degrees = max(least, variance**2 // squares) if squares else least
    # Two or three runs may agree by chance, however many degrees of freedom the sentences have.
    most = sum(runs) - len(runs) + 1
    return variance, min(degrees, most) if min(runs) <= 3 else degrees


class MetricScore(NamedTuple):
    """The score of one system by one measure."""

    score: float
    """Score of the whole text."""
    mean: float | None
    """Mean over bootstrap resamples; None for a system that is scored alone."""
    interval: float | None
    """Half the width of the 95% confidence interval around the mean; None if there is no mean."""
    p_value: float | None
    """p-value of the difference from the first system; None for the first system."""


class SystemScores(NamedTuple):
    """Scores of systems and the signatures of the measures."""

    names: Sequence[str]
    """Names of the systems."""
    scores: dict[str, list[MetricScore]]
    """Scores of the systems, in the order of their names, for each measure."""
    signatures: dict[str, str]
    """sacreBLEU's signature of each measure; only scores with equal signatures are comparable."""


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    *,
    num_samples: int | None = None,
    rule: ScoringRule = DEFAULT_RULE,
) -> SystemScores:
    """Score systems by every measure of text, and test whether they differ from the first.

    The p-values are those of approximate randomization (Riezler and Maxwell 2005), two-sided; the
    intervals come from bootstrap resamples (Koehn 2004).

    Args:
        systems: Names and detokenized translations; a single system is scored without a test.
        references: One or more reference texts, each with one line for each translation.
        num_samples: Number of permutations; None for sacreBLEU's default.
        rule: BLEU's tokenizer, and whether BLEU and chrF ignore case.

    Raises:
        ValueError: The tokenizer needs a package that is not installed.

    Example:
        >>> references = [["A dog runs.", "Two men sit."]]
        >>> systems = [("a", ["A dog runs.", "Two men stand."]), ("b", ["A cat.", "Men."])]
        >>> found = compare_systems(systems, references, num_samples=50)
        >>> [round(each.score, 1) for each in found.scores["chrf"]]
        [76.6, 7.2]
    """
    number = len(references)
    signatures = {name: signature(rule, name, num_references=number) for name in OF_TEXT}
    if len(systems) == 1:
        values = score_texts(systems[0][1], *references, rule=rule)
        scores = {name: [MetricScore(value, None, None, None)] for name, value in values.items()}
    else:
        num_permutations = num_samples or _NUM_PERMUTATIONS
        statistics = [
            measure(Sentences(translations=lines, references=references, rule=rule), OF_TEXT)
            for _, lines in systems
        ]
        scores = {}
        for name, each in signatures.items():
            first, *others = (of_system[name][:, 0] for of_system in statistics)
            scores[name] = [_metric_score(name, first, None, num_permutations)]
            scores[name] += [_metric_score(name, rows, first, num_permutations) for rows in others]
            each.update("seed", _SEED)
            each.update("ar", num_permutations)
            each.update("bs", _NUM_RESAMPLES)
    texts = {name: str(each) for name, each in signatures.items()}
    return SystemScores([name for name, _ in systems], scores, texts)


def _metric_score(
    name: str, rows: Array, first: Array | None, num_permutations: int
) -> MetricScore:
    """Score a system by a measure, and test whether it differs from the first system.

    The random numbers are those of sacreBLEU's test.

    Args:
        name: The measure.
        rows: Statistics (S, K) of the system.
        first: Statistics of the first system; None for the first system itself.
        num_permutations: Number of permutations of the test.
    """
    # Imported here, because comparing the groups of a study does not need it.
    from sacrebleu.significance import estimate_ci

    score = MEASURES[name].score
    random = np.random.default_rng(_SEED)
    found, p_value = float(score(rows.sum(axis=0))), None
    if first is not None:
        kept = random.integers(2, size=(num_permutations, len(rows)), dtype=bool)
        one, other = (score(mask @ first + ~mask @ rows) for mask in (kept, ~kept))
        effect = abs(found - float(score(first.sum(axis=0))))
        # Rounding must not hide an equal difference.
        num_as_large = int((np.abs(one - other) >= effect - 1e-9).sum())
        p_value = (num_as_large + 1) / (num_permutations + 1)
    resamples = random.choice(len(rows), size=(_NUM_RESAMPLES, len(rows)))
    mean, interval = estimate_ci(score(np.stack([rows[each].sum(axis=0) for each in resamples])))
    return MetricScore(found, float(mean), float(interval), p_value)
