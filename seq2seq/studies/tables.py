"""Compare the groups of a study with a baseline; write leaderboard.csv and groups.csv."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tabulate import tabulate

from seq2seq.evaluation.significance import (
    SENTENCES_ONLY,
    GroupComparison,
    compare_groups,
    correct,
    p_text,
)
from seq2seq.files.atomic import whole_file
from seq2seq.studies.runs import (
    MEASURES,
    Group,
    Spread,
    StudyRun,
    describe_repeated_seeds,
    group_runs,
)
from seq2seq.visualization.page import Cell, Column, Table

if TYPE_CHECKING:
    from seq2seq.inference.interventions import Intervention

LEADERBOARD, GROUPS, LOSSES = "leaderboard.csv", "groups.csv", "interventions.csv"
REPORT = "report.html"
COSTS = ("parameters", "minutes", "tokens_per_second", "best_update")
_FIRST = ("valid_bleu", "bleu")
"""Measures to the left of the comparison with the baseline."""
ON_PAGE = (*_FIRST, "chrf", "ter", "perplexity", "aer", *COSTS)
_IN_TERMINAL = (*_FIRST, "chrf", "ter", "aer", "parameters", "minutes", "tokens_per_second")
_COMPARISON = (
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "p_value",
    "p_value_holm",
    "p_value_covers",
    "not_compared",
)
STAR = f"* one run on a side: {SENTENCES_ONLY}"
INTERVAL_HINT = (
    "at the level of Holm's correction, so that it agrees with p; 95% for one comparison"
)


@dataclass(kw_only=True, slots=True)
class BaselineComparison:
    """A group's difference from the baseline in test BLEU."""

    baseline: str = ""
    """Label of the baseline; empty for the baseline itself and a group without one."""
    result: GroupComparison | None = None
    """None for the baseline itself and for a group that cannot be compared."""
    reason: str
    """Why there is no comparison; empty for the baseline itself."""

    @property
    def is_of_sentences_only(self) -> bool:
        """Return whether a single run was compared, so that nothing is known of other seeds."""
        return self.result is not None and self.result.covers == SENTENCES_ONLY


def explain_stars(comparisons: Sequence[BaselineComparison]) -> list[str]:
    """Return a line about the p-values with a star; none without one."""
    return [STAR] if any(each.is_of_sentences_only for each in comparisons) else []


def compare_with_baseline(
    groups: Sequence[Group], baseline: str | None
) -> list[BaselineComparison]:
    """Compare each group with the baseline of its test set.

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
        raise ValueError("the baseline is empty; name a group, or compare with the best without it")
    if baseline is not None and not any(_fits(group, baseline) for group in groups):
        labels = ", ".join(group.label for group in groups)
        raise ValueError(f"baseline={baseline} is not a group of the study; one of: {labels}")
    comparisons = [BaselineComparison(reason=_reason(group)) for group in groups]
    for members in _by_test_set(groups):
        first = _find_baseline(groups, members, baseline)
        for i in members:
            if first is None:
                comparisons[i].reason = "the baseline has another test set"
            elif i != first:
                comparisons[i].baseline = groups[first].label
                comparisons[i].result = _compare(groups[i], groups[first])
    results = {i: each.result for i, each in enumerate(comparisons) if each.result}
    for i, result in zip(results, correct(list(results.values())), strict=True):
        comparisons[i].result = result
    return comparisons


def _find_baseline(
    groups: Sequence[Group], members: Sequence[int], baseline: str | None
) -> int | None:
    """Return the index of the baseline among the members of one test set, the best first."""
    if baseline is None:
        return members[0]
    fitting = [i for i in members if _fits(groups[i], baseline)]
    if len(fitting) > 1:
        labels = "; ".join(groups[i].label for i in fitting)
        raise ValueError(f"baseline={baseline} fits several groups: {labels}; give more key=value")
    return fitting[0] if fitting else None


def _fits(group: Group, baseline: str) -> bool:
    if baseline == group.label or any(_is_same(baseline, each) for each in group.swept.values()):
        return True
    pairs = [pair.partition("=") for pair in baseline.split()]
    return all(equals and _is_same(value, group.swept.get(key, "")) for key, equals, value in pairs)


def _is_same(typed: str, value: str) -> bool:
    """Return whether a typed value is a swept one: 0 is 0.0, and 1e-3 is 0.001."""
    try:
        return typed == value or float(typed) == float(value)
    except ValueError:
        return False


def groups_with_first_test_set(groups: Sequence[Group]) -> list[int]:
    """Return the indices of the groups with the test set of the first; none if it has none."""
    return next((members for members in _by_test_set(groups) if members[0] == 0), [])


def _by_test_set(groups: Sequence[Group]) -> list[list[int]]:
    """Return the indices of the groups whose runs have one test set, a list for each test set."""
    found: dict[object, list[int]] = {}
    for i, group in enumerate(groups):
        if not _reason(group):
            found.setdefault(group.runs[0].test_set, []).append(i)
    return list(found.values())


def _reason(group: Group) -> str:
    """Say why a group has no test set of its own; an empty text if it has one."""
    found = {run.test_set for run in group.runs}
    if None in found:
        return "a run has no test.hyp or test.ref"
    return "" if len(found) == 1 else "its runs have different test sets"


def _compare(group: Group, baseline: Group) -> GroupComparison:
    return compare_groups(
        *(np.stack([run.statistics for run in each.runs]) for each in (group, baseline))
    )


def write_tables(
    runs: Sequence[StudyRun],
    directory: Path,
    *,
    baseline: str | None,
    interventions: "Sequence[Intervention]" = (),
) -> str:
    """Write leaderboard.csv, groups.csv, report.html and, with interventions, interventions.csv.

    Args:
        runs: The runs in the order of the leaderboard.
        directory: Created if it does not exist.
        baseline: The group that the others are compared with; see `compare_with_baseline`.
        interventions: Changes of attention weights with which the test set is translated again.

    Returns:
        The table of the groups for a terminal, and what is to be known about it.

    Raises:
        ValueError: No group is called like the baseline.
    """
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    # Imported here because a training needs no translator before the end of its sweep.
    from seq2seq.studies.findings import AGREEMENT, find
    from seq2seq.studies.interventions import COLUMNS
    from seq2seq.studies.measures import COMPARED, ENDINGS
    from seq2seq.studies.report import write_report

    found = find(groups, comparisons, interventions)
    directory.mkdir(parents=True, exist_ok=True)
    keys = list(runs[0].swept) if runs else []
    _write_csv(directory / LEADERBOARD, ["run", *keys, *MEASURES, "failure"], map(_run_row, runs))
    keys = list(groups[0].swept) if groups else []
    measures = [f"{name}{end}" for name in MEASURES for end in ("", "_deviation")]
    compared = [f"{name}_{end}" for name in COMPARED for end in ENDINGS]
    _write_csv(
        directory / GROUPS,
        [*keys, "runs", "failed_runs", *measures, *_COMPARISON, *compared, *AGREEMENT],
        (
            _group_row(group, comparison) | row
            for group, comparison, row in zip(groups, comparisons, found.measures, strict=True)
        ),
    )
    warnings = [f"warning: {text}" for text in describe_repeated_seeds(groups)]
    if interventions:
        _write_csv(directory / LOSSES, COLUMNS, found.losses)
    elif (directory / LOSSES).exists():  # of other tables than these
        (directory / LOSSES).unlink()
        warnings.append(f"warning: removed the old {LOSSES}; --interventions=... writes a new one")
    write_report(runs, groups, comparisons, directory / REPORT, found)
    shown = "no run has results"
    if groups:
        table = group_table(groups, comparisons, _IN_TERMINAL)
        shown = tabulate(
            [[cell.text for cell in row] for row in table.rows],
            headers=[column.label for column in table.columns],
            tablefmt="plain",
            disable_numparse=True,
            colalign=["right" if column.is_numeric else "left" for column in table.columns],
        )
    failures = [run.outcome for run in runs if run.failure is not None]
    return "\n".join([shown, *explain_stars(comparisons), *failures, *warnings])


def list_files(directory: Path) -> str:
    """Return the paths of the files that `write_tables` has written, one a line."""
    paths = (directory / name for name in (LEADERBOARD, GROUPS, LOSSES, REPORT))
    return "\n".join(str(path) for path in paths if path.exists())


def group_table(
    groups: Sequence[Group], comparisons: Sequence[BaselineComparison], measures: Sequence[str]
) -> Table:
    """Return a row for each group: swept values, runs, measures and the comparison.

    Args:
        groups: At least one.
        comparisons: One for each group.
        measures: Those to show, as far as a group has them.
    """
    keys = list(groups[0].swept) or ["group"]
    names = known_measures(groups, measures)
    first = [name for name in names if name in _FIRST]
    later = names[len(first) :]
    columns = [*(Column(key, is_numeric=False) for key in keys), Column("Runs")]
    columns += map(column, first)
    is_compared = any(each.result is not None for each in comparisons)
    if is_compared:
        columns += [
            Column("Difference", hint="test BLEU minus that of the baseline"),
            Column("Interval", hint=INTERVAL_HINT),
            Column("p (Holm)", hint="of the difference, corrected for several comparisons"),
        ]
    columns += map(column, later)
    rows = []
    for group, compared in zip(groups, comparisons, strict=True):
        row = [Cell(value or "-") for value in group.swept.values()] or [Cell(group.label)]
        row += [Cell(str(len(group.runs)), len(group.runs))]
        row += [spread(group, name) for name in first]
        row += _comparison(compared) if is_compared else []
        rows.append([*row, *(spread(group, name) for name in later)])
    caption = "Groups: mean \xb1 standard deviation over the runs; click a head to sort"
    caption = "; ".join([caption, *explain_stars(comparisons)])
    return Table(caption=caption, columns=columns, rows=rows)


def column(measure: str) -> Column:
    """Return the column of a measure."""
    return Column(MEASURES[measure].title, hint=MEASURES[measure].hint)


def spread(group: Group, measure: str) -> Cell:
    """Return the mean of a measure, with its standard deviation over the runs."""
    found = group.spread(measure)
    if measure == "parameters":  # they do not depend on the seed
        found = found._replace(deviation=None)
    return number_cell(found, MEASURES[measure].form)


def number_cell(value: Spread | float | None, form: str) -> Cell:
    """Return a number, or a mean with its standard deviation; a dash if there is none.

    Large numbers have commas. An infinite number of updates is "never".
    """
    mean, deviation = value if isinstance(value, Spread) else (value, None)
    if mean is None or math.isinf(mean):
        return Cell("-" if mean is None else "never")
    text = " \xb1 ".join(f"{each:,{form}}" for each in (mean, deviation) if each is not None)
    return Cell(text, mean)


def known_measures(groups: Sequence[Group], measures: Sequence[str]) -> list[str]:
    """Return the measures that some group has."""
    return [name for name in measures if any(group.mean(name) is not None for group in groups)]


def in_words(values: Sequence[str]) -> str:
    """Join with commas and "and".

    Example:
        >>> in_words(["dot", "none", "local"])
        'dot, none and local'
    """
    *first, last = values
    return f"{', '.join(first)} and {last}" if first else last


def _comparison(compared: BaselineComparison) -> list[Cell]:
    if compared.result is None:
        text = "not compared" if compared.reason else "baseline"
        return [Cell(text), Cell("-"), Cell("-")]
    effect, (low, high) = compared.result.effect, compared.result.interval
    return [
        Cell(f"{effect:+.2f}", effect),
        Cell(f"{low:+.2f} to {high:+.2f}", low),
        Cell(
            p_text(compared.result.p_corrected, compared.result.covers), compared.result.p_corrected
        ),
    ]


def _run_row(run: StudyRun) -> dict[str, object]:
    return {"run": run.name, **run.swept, **run.measures, "failure": run.failure}


def _group_row(group: Group, compared: BaselineComparison) -> dict[str, object]:
    row: dict[str, object] = {"runs": len(group.runs), "failed_runs": group.num_failed}
    row |= group.swept
    for name in MEASURES:
        row[name], row[f"{name}_deviation"] = group.spread(name)
    found = compared.result
    if found is None:
        return row | {"baseline": compared.baseline, "not_compared": compared.reason}
    p_values = found.p_value, found.p_corrected
    values = [compared.baseline, found.effect, *found.interval, *p_values, found.covers, None]
    return row | dict(zip(_COMPARISON, values, strict=True))


def _write_csv(path: Path, keys: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write unrounded numbers; what a row lacks stays empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, keys)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.12g}" if isinstance(v, float) else v for k, v in row.items()})
    with whole_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))
