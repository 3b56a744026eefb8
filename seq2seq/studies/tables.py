"""The tables of a study: leaderboard.csv, groups.csv, and that of the groups as it is shown."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from seq2seq.files.atomic import whole_file
from seq2seq.studies.comparison import (
    SENTENCES_ONLY,
    BaselineComparison,
    compare_with_baseline,
    explain_stars,
)
from seq2seq.studies.runs import (
    MEASURES,
    Group,
    Spread,
    StudyRun,
    describe_repeated_seeds,
    group_runs,
)
from seq2seq.visualization.report_page import Cell, Column, Table

LEADERBOARD, GROUPS, REPORT = "leaderboard.csv", "groups.csv", "report.html"
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
    "p_value_stratified",
    "p_value_covers",
    "not_compared",
)


def write_tables(runs: Sequence[StudyRun], directory: Path, *, baseline: str | None) -> str:
    """Write leaderboard.csv, groups.csv and report.html.

    Args:
        runs: The runs in the order of the leaderboard.
        directory: Created if it does not exist.
        baseline: The group that the others are compared with; see `compare_with_baseline`.

    Returns:
        The table of the groups for a terminal, and what is to be known about it.

    Raises:
        ValueError: No group is called like the baseline.
    """
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    directory.mkdir(parents=True, exist_ok=True)
    keys = list(runs[0].swept) if runs else []
    _write_csv(directory / LEADERBOARD, ["run", *keys, *MEASURES, "failure"], map(_run_row, runs))
    measures = [f"{name}{end}" for name in MEASURES for end in ("", "_deviation")]
    keys = list(groups[0].swept) if groups else []
    _write_csv(
        directory / GROUPS,
        [*keys, "runs", "failed_runs", *measures, *_COMPARISON],
        map(_group_row, groups, comparisons),
    )
    # Imported here because a training needs no translator before the end of its sweep.
    from seq2seq.studies.report import write_report

    write_report(runs, groups, comparisons, directory / REPORT)
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
    warnings = [f"warning: {text}" for text in describe_repeated_seeds(groups)]
    return "\n".join([shown, *explain_stars(comparisons), *failures, *warnings])


def list_files(directory: Path) -> str:
    """Return the paths of the files that `write_tables` writes, one a line."""
    return "\n".join(f"{directory}/{name}" for name in (LEADERBOARD, GROUPS, REPORT))


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
            Column("95% interval", hint="of the difference; not corrected"),
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

    Large numbers have commas.
    """
    mean, deviation = value if isinstance(value, Spread) else (value, None)
    if mean is None:
        return Cell("-")
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
        Cell(compared.p_text, compared.holm),
    ]


def _run_row(run: StudyRun) -> dict[str, object]:
    return {"run": run.name, **run.swept, **run.measures, "failure": run.failure}


def _group_row(group: Group, compared: BaselineComparison) -> dict[str, object]:
    row: dict[str, object] = {"runs": len(group.runs), "failed_runs": group.num_failed}
    row |= group.swept
    for name in MEASURES:
        row[name], row[f"{name}_deviation"] = group.spread(name)
    found = compared.result
    values: list[object] = [None] * 7
    if found is not None:
        covers = SENTENCES_ONLY if compared.is_of_sentences_only else "seeds and sentences"
        p_values = found.p_value, compared.holm, found.p_stratified
        values = [found.effect, *found.interval, *p_values, covers]
    return row | dict(zip(_COMPARISON, [compared.baseline, *values, compared.reason], strict=True))


def _write_csv(path: Path, keys: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write unrounded numbers; what a row lacks stays empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, keys)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.12g}" if isinstance(v, float) else v for k, v in row.items()})
    with whole_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))
