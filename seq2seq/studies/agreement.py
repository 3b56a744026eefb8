"""Compare the attention of runs: does a pattern belong to the type or to the seed?"""

# R runs, S sentences, T target length; n and m runs of two groups

import itertools
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from seq2seq.checks import counted
from seq2seq.evaluation.metrics import Array
from seq2seq.evaluation.significance import LEVEL, holm
from seq2seq.studies.runs import groups_of

_MOST_DIVISIONS = 200_000


def divergences(maps: Sequence[Sequence[Array]]) -> Array:
    """Return the mean Jensen-Shannon divergence of the attention of every two runs, (R, R).

    It is in bits, from 0 (equal weights) to 1 (no source token in common), and the mean over the
    target tokens of the sentences whose maps are known. Runs with different tokens have NaN.
    """
    found = np.full((len(maps), len(maps)), np.nan)
    sizes = [[weights.shape for weights in of_run] for of_run in maps]
    length = max((shape[1] for shapes in sizes for shape in shapes), default=0)
    tokens = [_tokens(of_run, length) for of_run in maps]
    entropies = list(map(_entropy, tokens))
    for one, other in combinations(range(len(maps)), 2):
        if sizes[one] and sizes[one] == sizes[other]:
            joint = _entropy((tokens[one] + tokens[other]) / 2)
            found[one, other] = joint - (entropies[one] + entropies[other]) / 2
            found[other, one] = found[one, other]
    return found


def link_errors(maps: Sequence[Sequence[Array]], known: Array) -> Array:
    """Score the links of every two runs against each other by the AER, from 0 (equal) to 1, (R, R).

    Each target token but EOS has one link, to the source token other than EOS with the most
    attention. So the AER is the share of the target tokens whose links differ.

    Args:
        maps: Attention of the runs.
        known: The result of `divergences`; where it is NaN, so is the AER.
    """
    links = [
        np.concatenate([[], *(each[:-1, :-1].argmax(1) for each in of_run if each.shape[1] > 1)])
        for of_run in maps
    ]
    found = np.full_like(known, np.nan)
    for one, other in np.argwhere(~np.isnan(known)):
        if len(links[one]):
            found[one, other] = (links[one] != links[other]).mean()
    return found


def _tokens(maps: Sequence[Array], length: int) -> Array:
    """Return the weights of all target tokens, padded to one source length."""
    rows = [np.pad(each, ((0, 0), (0, length - each.shape[1]))) for each in maps]
    return np.concatenate(rows, dtype=np.float64) if rows else np.zeros((0, length))


def _entropy(weights: Array) -> float:
    """Return the mean entropy of distributions, in bits."""
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    return -float((weights * logarithms).sum() / max(len(weights), 1))


def mean_between(distances: Array, ones: Sequence[int], others: Sequence[int]) -> float:
    """Return the mean over all pairs of two different runs, one from each group; NaN if a pair is
    missing."""
    pairs = {(min(one, other), max(one, other)) for one in ones for other in others if one != other}
    return float(np.mean([distances[pair] for pair in pairs])) if pairs else math.nan


def between_groups(distances: Array, places: dict[str, list[int]]) -> pd.DataFrame:
    """Return the mean distance between the runs of every two groups."""
    rows = [[mean_between(distances, a, b) for b in places.values()] for a in places.values()]
    return pd.DataFrame(rows, index=list(places), columns=list(places)).rename_axis("Group")


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


def compare_attention(distances: Array, num_runs: int) -> float | None:
    """Test whether attention differs more between two groups than between their seeds.

    The statistic is the mean divergence between the groups minus the mean divergence within them.
    The p-value is the share of all divisions of the runs into groups of these sizes, the real one
    included, with at least this statistic. It cannot be below `least_p_value`. With 11 or more runs
    in each group, a random sample of the divisions is used.

    Args:
        distances: Divergences of the runs of both groups, (n + m, n + m).
        num_runs: Number of runs of the first group, n.

    Returns:
        The p-value; None unless both groups have several runs with attention.
    """
    n, m = num_runs, len(distances) - num_runs
    distances = np.where(np.eye(n + m, dtype=bool), 0.0, distances)
    if min(n, m) < 2 or np.isnan(distances).any():
        return None
    from scipy.stats import permutation_test  # importing it takes a second

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


AGREEMENT = [
    *("agreement_within", "agreement_between", "agreement_p", "agreement_seeds_needed"),
    *("link_aer_within", "link_aer_between"),
]


def places_of(finished: pd.DataFrame) -> dict[str, list[int]]:
    """Return the positions of the runs of each group."""
    positions = finished.reset_index(drop=True)
    return {label: list(runs.index) for label, runs in groups_of(positions).items()}


def compare_agreement(
    divergence: Array,
    links: Array,
    places: dict[str, list[int]],
    baselines: pd.Series,
    notes: list[str],
) -> pd.DataFrame:
    """Compare the attention of each group with the attention of its baseline.

    Args:
        divergence: The result of `divergences`.
        links: The result of `link_errors`.
        places: The positions of the runs of each group.
        baselines: The baseline of each group, or an empty text.
        notes: Gets a line if groups have too few seeds.

    Returns:
        A row for each group that can be compared, with the columns `AGREEMENT`: the mean divergence
        of two seeds of the group, and of a run of the group and a run of the baseline; the p-value
        with Holm's correction, or the number of seeds that one needs; and the same means by the AER
        of the links.
    """
    p_values = {}
    for label, baseline in baselines.items():
        if baseline:
            runs = [*places[label], *places[baseline]]
            p_value = compare_attention(divergence[np.ix_(runs, runs)], len(places[label]))
            if p_value is not None:
                p_values[label] = p_value
    found = pd.DataFrame(index=list(p_values), columns=AGREEMENT, dtype=float)
    for label in p_values:
        for name, distances in (("agreement", divergence), ("link_aer", links)):
            for end, other in (("within", label), ("between", baselines[label])):
                mean = mean_between(distances, places[label], places[other])
                found.loc[label, f"{name}_{end}"] = mean
    least = {
        label: least_p_value(len(places[label]), len(places[baselines[label]]))
        for label in p_values
    }
    able = [label for label in p_values if len(p_values) * least[label] < LEVEL]
    for label, p_value in zip(able, holm([p_values[label] for label in able]), strict=True):
        found.loc[label, "agreement_p"] = p_value
    if unable := [label for label in p_values if label not in able]:
        needed = seeds_needed(len(p_values))
        found.loc[unable, "agreement_seeds_needed"] = needed
        notes.append(
            "Whether attention differs from the attention of the baseline is not tested in "
            f"{len(unable)} of {len(p_values)} groups: for {counted(len(p_values), 'comparison')}, "
            f"p can be below {LEVEL} only with {needed} or more seeds of each group."
        )
    return found
