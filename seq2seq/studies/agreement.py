"""Compare the attention of runs: does a pattern belong to the type or to the seed?"""

# R runs; n and m runs of two groups

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

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
    weights = [np.concatenate([[], *map(np.ravel, of_run)]) for of_run in maps]
    entropies = list(map(_entropy, weights))

    def divergence(one: int, other: int) -> float:
        joint = _entropy((weights[one] + weights[other]) / 2)
        return (joint - (entropies[one] + entropies[other]) / 2) / sum(map(len, maps[one]))

    return _every_two(maps, divergence)


def link_errors(maps: Sequence[Sequence[Array]]) -> Array:
    """Score the links of every two runs against each other by the AER, from 0 (equal) to 1, (R, R).

    Each target token but EOS has one link, to the source token other than EOS with the most
    attention. So the AER is the share of the target tokens whose links differ. Runs with different
    tokens have NaN.
    """
    links = [
        np.concatenate([[], *(each[:-1, :-1].argmax(1) for each in of_run if each.shape[1] > 1)])
        for of_run in maps
    ]

    def share(one: int, other: int) -> float:
        return float((links[one] != links[other]).mean()) if len(links[one]) else math.nan

    return _every_two(maps, share)


def _every_two(maps: Sequence[Sequence[Array]], distance: Callable[[int, int], float]) -> Array:
    """Return the distance of every two runs whose attention has the same tokens, else NaN."""
    found = np.full((len(maps), len(maps)), np.nan)
    sizes = [[weights.shape for weights in of_run] for of_run in maps]
    for one, other in combinations(range(len(maps)), 2):
        if sizes[one] and sizes[one] == sizes[other]:
            found[one, other] = found[other, one] = distance(one, other)
    return found


def _entropy(weights: Array) -> float:
    """Return the sum of the entropies of distributions, in bits."""
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    return -float((weights * logarithms).sum())


def mean_between(distances: Array, ones: ArrayLike, others: ArrayLike) -> Array:
    """Return the mean over all pairs of two different runs, one from each group; NaN if a pair is
    missing.

    Args:
        distances: Distance of every two runs, (R, R).
        ones: Positions of the runs of one group, (..., n).
        others: Positions of the runs of the other group, or of the same group, (..., m).
    """
    rows, columns = np.asarray(ones)[..., None], np.asarray(others)[..., None, :]
    is_pair = rows != columns
    total = np.where(is_pair, distances[rows, columns], 0).sum(axis=(-2, -1))
    number = is_pair.sum(axis=(-2, -1))
    return np.where(number, total / np.maximum(number, 1), np.nan)


def between_groups(distances: Array, places: Mapping[str, Sequence[int]]) -> pd.DataFrame:
    """Return the mean distance between the runs of every two groups."""
    rows = [[mean_between(distances, a, b) for b in places.values()] for a in places.values()]
    frame = pd.DataFrame(rows, index=list(places), columns=list(places), dtype=float)
    return frame.rename_axis("Group")


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


def compare_attention(distances: Array, ones: Sequence[int], others: Sequence[int]) -> float | None:
    """Test whether attention differs more between two groups than between their seeds.

    The statistic is the mean divergence between the groups minus the mean divergence within them.
    The p-value is the share of all divisions of the runs into groups of these sizes, the real one
    included, with at least this statistic. It cannot be below `least_p_value`. With 11 or more runs
    in each group, a random sample of the divisions is used.

    Args:
        distances: Divergence of every two runs, (R, R).
        ones: Positions of the runs of one group.
        others: Positions of the runs of the other group.

    Returns:
        The p-value; None unless both groups have several runs with attention.
    """

    def effect(one: ArrayLike, other: ArrayLike, axis: int = -1) -> Array:
        within = mean_between(distances, one, one) + mean_between(distances, other, other)
        # Rounded, so that exchanging the groups gives exactly the same statistic.
        return np.asarray((mean_between(distances, one, other) - within / 2).round(12))

    if np.isnan(effect(ones, others)):
        return None
    from scipy.stats import permutation_test  # importing it takes a second

    options = {"n_resamples": _MOST_DIVISIONS, "batch": 10_000, "random_state": 0}
    test = permutation_test(
        (ones, others), effect, alternative="greater", vectorized=True, **options
    )
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
    places: Mapping[str, Sequence[int]],
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
    rows: dict[str, dict[str, object]] = {}
    least = {}
    for label, baseline in baselines[baselines != ""].items():
        one, other = places[label], places[baseline]
        p_value = compare_attention(divergence, one, other)
        if p_value is not None:
            rows[label] = {"agreement_p": p_value}
            for name, distances in (("agreement", divergence), ("link_aer", links)):
                rows[label][f"{name}_within"] = mean_between(distances, one, one)
                rows[label][f"{name}_between"] = mean_between(distances, one, other)
            least[label] = least_p_value(len(one), len(other))
    found = pd.DataFrame(rows, index=AGREEMENT).T.astype(float)
    able = [label for label in rows if len(rows) * least[label] < LEVEL]
    found.loc[able, "agreement_p"] = holm(list(found.loc[able, "agreement_p"]))
    if unable := [label for label in rows if label not in able]:
        needed = seeds_needed(len(rows))
        found.loc[unable, ["agreement_p", "agreement_seeds_needed"]] = math.nan, needed
        notes.append(
            "Whether attention differs from the attention of the baseline is not tested in "
            f"{len(unable)} of {len(rows)} groups: for {counted(len(rows), 'comparison')}, "
            f"p can be below {LEVEL} only with {needed} or more seeds of each group."
        )
    return found
