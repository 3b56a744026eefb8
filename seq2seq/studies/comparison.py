"""Compare the groups of a study with a baseline, measure by measure."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.metrics import Array, corpus_bleu, equal_bins, text_lengths
from seq2seq.evaluation.significance import GroupComparison, Score, compare_groups, correct
from seq2seq.studies.runs import RUN_MEASURES, SEED, groups_of, is_same

_NUM_LENGTHS = 5
COMPARED = ["bleu", *(name for name in MEASURES if name != "bleu")]


def summarize(finished: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each group: its number of runs, and mean and standard deviation of each
    measure over the runs that have it."""
    names = list(RUN_MEASURES)
    with np.errstate(invalid="ignore"):  # the deviation of "never" is unknown
        groups = finished.groupby("group", sort=False)[names].agg(["mean", "std"])
    groups.columns = [name if kind == "mean" else f"{name}_deviation" for name, kind in groups]
    groups.insert(0, "runs", finished.groupby("group", sort=False).size())
    return groups


def find_baselines(finished: pd.DataFrame, baseline: str | None) -> pd.DataFrame:
    """Choose the baseline of each group, among the groups with the same test set.

    Args:
        finished: The runs in the order of `finished_runs`.
        baseline: A swept value, such as `additive`, or `key=value` pairs separated by spaces. None:
            the best group by validation of each test set.

    Returns:
        The label of the `baseline` of each group, empty for a baseline itself and for a group that
        cannot be compared, for the `reason` beside it.

    Raises:
        ValueError: No group fits the baseline, or several of one test set do.
    """
    groups = groups_of(finished)
    fitting = [label for label, runs in groups.items() if _fits(label, runs, baseline)]
    if groups and not fitting:
        labels = ", ".join(groups)
        raise ValueError(f"baseline={baseline} is not a group with results; one of: {labels}")
    test_sets = {label: set(runs["test_set"]) for label, runs in groups.items()}
    rows = {}
    for label, test_set in test_sets.items():
        chosen = [other for other in fitting if test_sets[other] == test_set]
        if "" in test_set:
            rows[label] = ("", "a run lacks test.npz, test.hyp or test.ref")
        elif len(test_set) > 1:
            rows[label] = ("", "its runs have different test sets")
        elif not chosen:
            rows[label] = ("", "the baseline has another test set")
        elif baseline is not None and chosen[1:]:
            raise ValueError(
                f"baseline={baseline} fits several groups: {'; '.join(chosen)}; give more "
                "key=value pairs"
            )
        else:
            rows[label] = ("" if label == chosen[0] else chosen[0], "")
    return pd.DataFrame.from_dict(rows, orient="index", columns=["baseline", "reason"])


def _fits(label: str, runs: pd.DataFrame, baseline: str | None) -> bool:
    if baseline is None or baseline == label:
        return True
    others = {key: value for key, value in runs["swept"].iloc[0].items() if key != SEED}
    if any(is_same(baseline, value) for value in others.values()):
        return True
    pairs = [pair.partition("=") for pair in baseline.split()]
    return all(equals and is_same(value, others.get(key, "")) for key, equals, value in pairs)


def compare(finished: pd.DataFrame, baselines: pd.Series, notes: list[str]) -> pd.DataFrame:
    """Test the difference between each group and its baseline in each measure that both have.

    Args:
        finished: The runs.
        baselines: The baseline of each group, or an empty text.
        notes: Groups that split the test set into other tokens add a line.

    Returns:
        A row for each `measure` and `group`, with the columns of `result`; p-values and intervals
        have Holm's correction over the groups.
    """
    groups = groups_of(finished)
    pairs = {label: baseline for label, baseline in baselines.items() if baseline}
    others = [
        label
        for label, baseline in pairs.items()
        if not have_same_tokens(pd.concat([groups[label], groups[baseline]])["statistics"])
    ]
    if others:
        titles = ", ".join(measure.title for measure in MEASURES.values() if measure.is_per_token)
        notes.append(
            f"{titles} are not compared in {len(others)} of {len(groups)} groups, which split "
            "the test set into other tokens than the baseline, or have other unknown ones; compare "
            "the loss per character."
        )
    rows = []
    for name in COMPARED:
        family = {}
        for label, baseline in pairs.items():
            one, other = (stack(groups[side], name) for side in (label, baseline))
            is_able = not (MEASURES[name].is_per_token and label in others)
            if is_able and one is not None and other is not None:
                family[label] = compare_groups(one, other, score=MEASURES[name].score)
        for label, found in zip(family, correct(list(family.values())), strict=True):
            names = {"measure": name, "group": label, "baseline": pairs[label]}
            rows.append(names | result(found))
    columns = ["measure", "group", "baseline", *RESULT]
    return pd.DataFrame(rows, columns=columns).set_index(["measure", "group"])


def stack(runs: pd.DataFrame, measure: str) -> Array | None:
    """Return the statistics (R, S, K) of a measure; None unless all R runs have it."""
    if not all(measure in statistics for statistics in runs["statistics"]):
        return None
    return np.stack([statistics[measure][:, 0] for statistics in runs["statistics"]])


RESULT = ["difference", "difference_low", "difference_high", "p", "p_holm", "covers"]


def result(found: GroupComparison) -> dict[str, object]:
    """Return the columns of a comparison: difference, interval, p-values, and what they cover."""
    p_values = found.p_value, found.p_corrected
    return dict(zip(RESULT, (found.effect, *found.interval, *p_values, found.covers), strict=True))


def have_same_tokens(statistics: Iterable[Mapping[str, Array]]) -> bool:
    """Return whether runs split each sentence of a set into the same number of tokens, with as many
    unknown ones."""
    runs = list(statistics)
    for name in ("loss", "coverage"):  # which count the target and the source tokens
        counts = [run[name][:, 0, 1:] for run in runs if name in run]
        if any(not np.array_equal(each, counts[0]) for each in counts):
            return False
    return True


def compare_with_zero(runs: Array, score: Score) -> GroupComparison:
    """Return the mean score of the statistics (R, S, K) of a group, with its interval."""
    return compare_groups(runs, np.zeros_like(runs), score=score, paired=True)


LENGTH_COLUMNS = [
    *("group", "source_length", "unit", "sentences", "bleu", "bleu_deviation", "bleu_low"),
    *("bleu_high", "interval_covers"),
]


def bleu_by_length(runs: pd.DataFrame, sources: Sequence[str], notes: list[str]) -> pd.DataFrame:
    """Return the BLEU of each group in ranges of source length with about equally many sentences.

    Args:
        runs: Runs with one test set.
        sources: The source sentences; empty if they are not known.
        notes: Gets a line if the sources have no spaces.

    Returns:
        A row for each group and range, with the `LENGTH_COLUMNS`; intervals lie within the scale.
    """
    if not sources:
        return pd.DataFrame(columns=LENGTH_COLUMNS)
    lengths, unit = text_lengths(sources)
    if unit != "words":
        notes.append(
            f"The sources have hardly any spaces, so source lengths are counted in {unit}."
        )
    rows = []
    for label, members in groups_of(runs).items():
        statistics = np.stack([each["bleu"][:, 0] for each in members["statistics"]])
        for each in equal_bins(lengths, num_bins=_NUM_LENGTHS):
            inside = statistics[:, [each.has(length) for length in lengths]]
            if inside.shape[1]:
                found = compare_with_zero(inside, corpus_bleu)
                deviation = pd.Series(corpus_bleu(inside.sum(axis=1))).std()
                ends = (min(max(end, 0.0), 100.0) for end in found.interval)
                values = label, each.label, unit, inside.shape[1], found.effect, deviation
                rows.append((*values, *ends, found.covers))
    return pd.DataFrame(rows, columns=LENGTH_COLUMNS)
