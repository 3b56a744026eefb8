"""Compare the groups of a study with a baseline, measure by measure, in tables and answers."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from seq2seq.evaluation.measures import MEASURES, Statistics
from seq2seq.evaluation.significance import (
    SENTENCES_ONLY,
    GroupComparison,
    compare_groups,
    correct,
    p_text,
)
from seq2seq.studies.runs import RUN_MEASURES, Group, Spread, is_same
from seq2seq.visualization.page import Cell, Column, Part, Table

COMPARED = [name for name in MEASURES if name != "bleu"]
"""Measures that are compared besides BLEU."""
MOMENTS = ("aligned_at", "half_bleu_at")
COSTS = ("parameters", "minutes", "tokens_per_second", "best_update")
FIRST = ("valid_bleu", "bleu")
"""Measures to the left of the comparison with the baseline."""
_LATER = [each for each in MEASURES.values() if each.name != "bleu" and not each.is_detail]
ON_PAGE = (*FIRST, *(each.name for each in _LATER), *COSTS)
IN_TERMINAL = (
    *FIRST,
    *(each.name for each in _LATER if each.needs in ("translations", "links")),
    *COSTS[:-1],
)
INTERVAL_HINT = (
    "95% interval for one comparison; for several, wider by Holm's correction, so that it agrees "
    "with p"
)


class Difference(NamedTuple):
    """A difference of a group from its baseline, or from itself before a change."""

    effect: float
    low: float
    """Lower end of the interval."""
    high: float
    p_value: float | None
    """p-value with Holm's correction; None: nothing was tested."""
    covers: str
    """Source of the variation that the interval and the p-value cover: seeds, sentences or both."""

    @classmethod
    def of(cls, found: GroupComparison) -> "Difference":
        """Return the result of a comparison."""
        return cls(found.effect, *found.interval, found.p_corrected, found.covers)

    def row(self, name: str, effect: str = "") -> dict[str, float | None]:
        """Return the values of the columns of a CSV file: NAME with `effect`, NAME_low, ..."""
        ends = {f"{name}_low": self.low, f"{name}_high": self.high, f"{name}_p": self.p_value}
        return {name + effect: self.effect} | ends

    def cell(self, form: str, answer: str = "") -> Cell:
        """Return the effect with its interval in brackets, after an answer."""
        text = f"{self.effect:{form}} ({self.low:{form}} to {self.high:{form}})"
        return Cell(f"{answer}: {text}" if answer else text, self.effect)

    def cells(self, form: str) -> list[Cell]:
        """Return effect, interval and p-value for the columns `DIFFERENCE`."""
        p_value = Cell("-")
        if self.p_value is not None:
            p_value = Cell(p_text(self.p_value, self.covers), self.p_value)
        interval = Cell(f"{self.low:{form}} to {self.high:{form}}", self.low)
        return [Cell(f"{self.effect:{form}}", self.effect), interval, p_value]


class Agreement(NamedTuple):
    """Divergence of the attention of a group; the fields have the names of columns."""

    agreement_within: float
    """Mean divergence of two seeds of the group, in bits."""
    agreement_between: float
    """Mean divergence of a run of the group and a run of the baseline, in bits."""
    agreement_p: float | None
    """p-value with Holm's correction; None if so few seeds cannot be significant."""
    agreement_seeds_needed: int | None
    """Number of seeds that are needed if there are too few."""
    link_aer_within: float | None
    """Like `agreement_within`, but measured by the AER of the links."""
    link_aer_between: float | None


@dataclass(kw_only=True, slots=True)
class BaselineComparison:
    """A group's differences from the baseline."""

    group: Group
    baseline: Group | None = None
    """Group to compare with; None for the baseline itself and for a group that cannot be
    compared."""
    result: GroupComparison | None = None
    """Difference in test BLEU; None without a baseline."""
    reason: str
    """Reason why there is no comparison; empty for the baseline itself."""
    measures: dict[str, Difference] = field(default_factory=dict)
    """Differences in the measures `COMPARED`, where they are known."""
    attention: Agreement | None = None
    """Difference in attention; None if it is not known."""

    @property
    def label(self) -> str:
        return self.group.label


def compare_with_baseline(
    groups: Sequence[Group], baseline: str | None
) -> list[BaselineComparison]:
    """Compare each group with the baseline of its test set, in test BLEU.

    Args:
        groups: The groups, best validation score first.
        baseline: A swept value, such as `additive`, or `key=value` pairs separated by spaces. None:
            the best group by validation of each test set.

    Returns:
        A comparison for each group.

    Raises:
        ValueError: No group fits the baseline, or several of one test set do.
    """
    if baseline is not None and not baseline.strip():
        raise ValueError("the baseline is empty; name a group, or remove the key to use the best")
    if baseline is not None and groups and not any(_fits(group, baseline) for group in groups):
        labels = ", ".join(group.label for group in groups)
        raise ValueError(f"baseline={baseline} is not a group with results; one of: {labels}")
    comparisons = [BaselineComparison(group=each, reason=_reason(each)) for each in groups]
    for members in _by_test_set(groups):
        fitting = [groups[i] for i in members if baseline is None or _fits(groups[i], baseline)]
        if baseline is not None and len(fitting) > 1:
            labels = "; ".join(group.label for group in fitting)
            raise ValueError(
                f"baseline={baseline} fits several groups: {labels}; give more key=value pairs"
            )
        for i in members:
            if not fitting:
                comparisons[i].reason = "the baseline has another test set"
            elif groups[i] is not fitting[0]:
                comparisons[i].baseline = fitting[0]
    compared = [each for each in comparisons if each.baseline]
    for each, result in zip(compared, _compare(compared, "bleu"), strict=True):
        each.result = result
    return comparisons


def compare_measures(comparisons: Sequence[BaselineComparison], notes: list[str]) -> None:
    """Test the difference between a group and its baseline in each measure that both have.

    Args:
        comparisons: The groups and their baselines, which get the differences.
        notes: Groups that split the test set into other tokens add a line.
    """
    compared = [each for each in comparisons if each.baseline]
    others = [
        each
        for each in compared
        if not have_same_tokens(run.statistics for side in _sides(each) for run in side.runs)
    ]
    if others:
        titles = ", ".join(each.title for each in MEASURES.values() if each.is_per_token)
        notes.append(
            f"{titles} are not compared in {len(others)} of {len(comparisons)} groups, which split "
            "the test set into other tokens than the baseline, or have other unknown ones; compare "
            "the loss per character."
        )
    for name in COMPARED:
        able = [
            each
            for each in compared
            if all(name in run.statistics for side in _sides(each) for run in side.runs)
            and not (MEASURES[name].is_per_token and each in others)
        ]
        for each, result in zip(able, _compare(able, name), strict=True):
            each.measures[name] = Difference.of(result)


def _sides(compared: BaselineComparison) -> list[Group]:
    assert compared.baseline is not None
    return [compared.group, compared.baseline]


def _compare(family: Sequence[BaselineComparison], measure: str) -> list[GroupComparison]:
    """Test the difference of a measure for groups with baselines, with Holm's correction."""
    score = MEASURES[measure].score
    sides = [[side.statistics(measure) for side in _sides(each)] for each in family]
    return correct([compare_groups(*each, score=score) for each in sides])


def have_same_tokens(statistics: Iterable[Statistics]) -> bool:
    """Return whether runs split each sentence of a set into the same number of tokens, with as many
    unknown ones."""
    runs = list(statistics)
    for name in ("loss", "coverage"):  # which count the target and the source tokens
        counts = [run[name][:, 0, 1:] for run in runs if name in run]
        if any(not np.array_equal(each, counts[0]) for each in counts):
            return False
    return True


def _fits(group: Group, baseline: str) -> bool:
    if baseline == group.label or any(is_same(baseline, each) for each in group.swept.values()):
        return True
    pairs = [pair.partition("=") for pair in baseline.split()]
    return all(equals and is_same(value, group.swept.get(key, "")) for key, equals, value in pairs)


def groups_with_first_test_set(groups: Sequence[Group]) -> list[int]:
    """Return the indices of the groups with the test set of the first group, if it has one."""
    return next((members for members in _by_test_set(groups) if members[0] == 0), [])


def _by_test_set(groups: Sequence[Group]) -> list[list[int]]:
    """Return the indices of the groups whose runs have one test set, a list for each test set."""
    found: dict[object, list[int]] = {}
    for i, group in enumerate(groups):
        if not _reason(group):
            found.setdefault(group.runs[0].test_set, []).append(i)
    return list(found.values())


def _reason(group: Group) -> str:
    """Say why a group has no test set of its own; empty if it has one."""
    found = {run.test_set for run in group.runs}
    if None in found:
        return "a run lacks test.npz, test.hyp or test.ref"
    return "" if len(found) == 1 else "its runs have different test sets"


DIFFERENCE = [
    Column("Difference", hint="mean minus the mean of the baseline; of BLEU, unless named"),
    Column("Interval", hint=INTERVAL_HINT),
    Column("p (Holm)", hint="of the difference, corrected over the groups"),
]


def group_table(comparisons: Sequence[BaselineComparison], shown: Sequence[str]) -> Table:
    """Return a row for each group: swept values, runs, measures and the comparison.

    Args:
        comparisons: Comparisons of all groups; at least one.
        shown: The measures to show, if a group has them.
    """
    groups = [each.group for each in comparisons]
    keys = list(groups[0].swept) or ["group"]
    names = known_measures(groups, shown)
    results = [each.result for each in comparisons]

    def swept(group: Group) -> list[Cell]:
        return [Cell(value or "-") for value in group.swept.values()] or [Cell(group.label)]

    def difference(group: Group) -> list[Cell]:
        compared = comparisons[groups.index(group)]
        if compared.result is not None:
            return Difference.of(compared.result).cells("+.2f")
        text = "not compared" if compared.reason else "baseline"
        return [Cell(text), Cell("-"), Cell("-")]

    return Table.of(
        "; ".join(["Groups: mean \xb1 standard deviation over the runs", *stars(results)]),
        groups,
        ([Column(key, is_numeric=False) for key in keys], swept),
        RUNS,
        measure_columns([name for name in names if name in FIRST]),
        *([(DIFFERENCE, difference)] if any(results) else []),
        measure_columns([name for name in names if name not in FIRST]),
    )


def stars(shown: Iterable[Difference | GroupComparison | None]) -> list[str]:
    """Return a line about the p-values with a star; none without one."""
    is_starred = any(each is not None and each.covers == SENTENCES_ONLY for each in shown)
    return [f"* one run on a side: {SENTENCES_ONLY}"] if is_starred else []


def text_column(label: str, text: Callable[[Any], str]) -> Part[Any]:
    """Return the part of a table with one column of texts."""
    return [Column(label, is_numeric=False)], lambda item: [Cell(text(item))]


def number_column(label: str, number: Callable[[Any], int]) -> Part[Any]:
    """Return the part of a table with one column of whole numbers."""
    return [Column(label)], lambda item: [number_cell(number(item), ".0f")]


GROUP = text_column("Group", attrgetter("label"))
"""Column of the labels of groups."""
RUNS = number_column("Runs", lambda group: len(group.runs))


def column(measure: str) -> Column:
    """Return the column of a measure."""
    return Column(RUN_MEASURES[measure].title, hint=RUN_MEASURES[measure].hint)


def spread(group: Group, measure: str) -> Cell:
    """Return the mean of a measure, with its standard deviation over the runs."""
    found = group.spread(measure)
    if measure in ("aer_of_diagonal", "parameters"):  # these values do not depend on the seed
        found = found._replace(deviation=None)
    return number_cell(found, RUN_MEASURES[measure].form)


def measure_columns(names: Sequence[str], cell: Callable[[Any, str], Cell] = spread) -> Part[Any]:
    """Return the part of a table with measures: their means over the runs, or other cells."""
    return list(map(column, names)), lambda item: [cell(item, name) for name in names]


def moment(group: Group, name: str) -> Cell:
    """Return the first and last update of the runs; 0 is shown as "before the first validation"."""
    values = sorted(run.measures[name] for run in group.runs if name in run.measures)
    texts = [
        number_cell(value, ".0f").text if value else "before the first validation"
        for value in dict.fromkeys(values[:1] + values[-1:])
    ]
    return Cell(" to ".join(texts) or "-", number_cell(group.spread(name), ".0f").value)


def number_cell(value: Spread | float | None, form: str) -> Cell:
    """Return a number, or a mean with its standard deviation; a dash if there is none.

    Large numbers have commas. An infinite number of updates is "never".
    """
    mean, deviation = value if isinstance(value, Spread) else (value, None)
    if mean is None or math.isinf(mean):
        return Cell("-" if mean is None else "never")
    text = " \xb1 ".join(f"{each:,{form}}" for each in (mean, deviation) if each is not None)
    return Cell(text, mean)


def known_measures(groups: Sequence[Group], names: Sequence[str]) -> list[str]:
    """Return the measures that some group has; the AER of the diagonal follows the AER."""
    beside = {"aer": ("aer", "aer_of_diagonal")}
    with_diagonal = [each for name in names for each in beside.get(name, (name,))]
    known = {name for group in groups for run in group.runs for name in run.measures}
    return [name for name in with_diagonal if name in known]
