"""Compare the attention of runs: does a pattern belong to the type or to the seed?"""

# S sentences, T target length; n and m runs

import itertools
import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean

import numpy as np

from seq2seq.checks import counted
from seq2seq.evaluation.metrics import Array
from seq2seq.evaluation.significance import LEVEL, holm
from seq2seq.studies.comparison import Agreement, BaselineComparison
from seq2seq.studies.runs import Group, StudyRun

Divergences = dict[frozenset[StudyRun], float]
"""Divergence of the attention of two runs, by pair of runs."""
_MOST_DIVISIONS = 200_000


def divergences(runs: Sequence[StudyRun]) -> Divergences:
    """Return the mean Jensen-Shannon divergence of the attention of each pair of runs, in bits.

    It lies between 0 (equal weights) and 1 (no source token in common); the mean is over the target
    tokens of the sentences whose maps are known. Pairs with different tokens are omitted.
    """
    found = {}
    sizes = {run: [each.shape for each in run.maps] for run in runs}
    length = max((shape[1] for shapes in sizes.values() for shape in shapes), default=0)
    tokens = {run: _tokens(run.maps, length) for run in runs}
    entropies = {run: _entropy(rows) for run, rows in tokens.items()}
    for one, other in combinations(runs, 2):
        if sizes[one] and sizes[one] == sizes[other]:
            joint = _entropy((tokens[one] + tokens[other]) / 2)
            found[frozenset((one, other))] = joint - (entropies[one] + entropies[other]) / 2
    return found


def link_errors(pairs: Iterable[frozenset[StudyRun]]) -> Divergences:
    """Score the links of every two runs against each other by the AER, from 0 (equal) to 1.

    Each target token but EOS has one link, to the source token other than EOS with the most
    attention. So the AER is the share of the target tokens whose links differ.
    """
    found: Divergences = {}
    links: dict[StudyRun, Array] = {}
    for pair in pairs:
        for run in pair - links.keys():
            maps = [each[:-1, :-1] for each in run.maps if each.shape[1] > 1]
            links[run] = np.concatenate([[], *(each.argmax(axis=1) for each in maps)])
        one, other = (links[run] for run in pair)
        if len(one):
            found[pair] = float((one != other).mean())
    return found


def _tokens(maps: Sequence[Array], length: int) -> Array:
    """Return the weights of all target tokens, padded to one source length."""
    rows = [np.pad(each, ((0, 0), (0, length - each.shape[1]))) for each in maps]
    return np.concatenate(rows, dtype=np.float64) if rows else np.zeros((0, length))


def _entropy(weights: Array) -> float:
    """Return the mean entropy of distributions, in bits."""
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    return -float((weights * logarithms).sum() / max(len(weights), 1))


def mean_divergence(found: Divergences, group: Group, other: Group) -> float | None:
    """Return the mean over all pairs with one run from each group; None if a pair is missing."""
    pairs = {frozenset((a, b)) for a in group.runs for b in other.runs if a is not b}
    values = [found.get(pair) for pair in pairs]
    return fmean(v for v in values if v is not None) if values and None not in values else None


def least_p_value(*sizes: int) -> float:
    """Return the smallest p-value of `compare_attention` for groups of these numbers of runs."""
    # Exchanging groups of equal size gives the same statistic.
    return (1 + (sizes[0] == sizes[1])) / math.comb(sum(sizes), sizes[0])


def seeds_needed(num_comparisons: int) -> int:
    """Return the number of seeds of each group with which a corrected p-value can be significant.

    Example:
        >>> [seeds_needed(number) for number in (1, 7)]
        [4, 6]
    """
    return next(n for n in itertools.count(2) if num_comparisons * least_p_value(n, n) < LEVEL)


def compare_attention(found: Divergences, group: Group, baseline: Group) -> float | None:
    """Test whether attention differs more between two groups than between their seeds.

    The statistic is the mean divergence between the groups minus the mean divergence within them.
    The p-value is the share of all divisions of the runs into groups of these sizes, the real one
    included, with at least this statistic. It cannot be below `least_p_value`. With 11 or more runs
    in each group, a random sample of the divisions is used.

    Returns:
        The p-value; None unless both groups have several runs with attention.
    """
    runs = [*group.runs, *baseline.runs]
    n, m = len(group.runs), len(baseline.runs)
    if min(n, m) < 2 or any(frozenset(pair) not in found for pair in combinations(runs, 2)):
        return None
    from scipy.stats import permutation_test  # importing it takes a second

    distances = np.array([[found.get(frozenset((a, b)), 0.0) for a in runs] for b in runs])

    def effect(one: Array, other: Array, axis: int) -> Array:
        def mean(rows: Array, columns: Array, num_pairs: int) -> Array:
            pairs = distances[rows[..., None], columns[..., None, :]]
            return np.asarray(pairs.sum(axis=(-2, -1)) / num_pairs)

        within = mean(one, one, n * (n - 1)) + mean(other, other, m * (m - 1))
        # Rounded, so that exchanging the groups gives exactly the same statistic.
        return np.asarray((mean(one, other, n * m) - within / 2).round(12))

    sides = np.arange(n), np.arange(n, n + m)
    options = {"n_resamples": _MOST_DIVISIONS, "batch": 10_000, "random_state": 0}
    test = permutation_test(sides, effect, alternative="greater", vectorized=True, **options)
    return float(test.pvalue)


def add_agreement(
    comparisons: Sequence[BaselineComparison], agreement: Divergences, notes: list[str]
) -> None:
    """Add the `Agreement` of each group and its baseline.

    A p-value that cannot be significant, given the numbers of runs and comparisons, is left out.
    """
    errors = link_errors(agreement)
    tested: list[tuple[BaselineComparison, Group, float]] = []
    for each in comparisons:
        if (baseline := each.baseline) is not None:
            p_value = compare_attention(agreement, each.group, baseline)
            tested += [(each, baseline, p_value)] if p_value is not None else []
    if not tested:
        return
    number = seeds_needed(len(tested))
    least = [least_p_value(len(each.group.runs), len(other.runs)) for each, other, _ in tested]
    is_able = [len(tested) * p_value < LEVEL for p_value in least]
    corrected = iter(holm([p for (_, _, p), able in zip(tested, is_able, strict=True) if able]))
    for (each, baseline, _), able in zip(tested, is_able, strict=True):
        within, between, *of_links = (
            mean_divergence(found, each.group, other)
            for found in (agreement, errors)
            for other in (each.group, baseline)
        )
        assert within is not None and between is not None  # otherwise nothing was tested
        p_value, needed = (next(corrected), None) if able else (None, number)
        each.attention = Agreement(within, between, p_value, needed, *of_links)
    if num_unable := is_able.count(False):
        notes.append(
            "Whether attention differs from the attention of the baseline is not tested in "
            f"{num_unable} "
            f"of {len(tested)} groups: for {counted(len(tested), 'comparison')}, p can be below "
            f"{LEVEL} only with {number} or more seeds of each group."
        )
