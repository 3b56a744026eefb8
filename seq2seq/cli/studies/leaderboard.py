"""Compare the runs of a study: leaderboard.csv, groups.csv, report.html, and text."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from seq2seq.cli.studies.comparison import BaselineComparison, compare_with_baseline
from seq2seq.cli.studies.formats import known_measures, shown_spread, spread_text
from seq2seq.cli.studies.run_files import MEASURES
from seq2seq.cli.studies.runs import (
    SEED,
    Group,
    Run,
    describe_repeated_seeds,
    group_runs,
)
from seq2seq.files.atomic import whole_file

LEADERBOARD, GROUPS, REPORT = "leaderboard.csv", "groups.csv", "report.html"
_IN_TERMINAL = (
    "valid_bleu",
    "bleu",
    "chrf",
    "ter",
    "aer",
    "parameters",
    "minutes",
    "tokens_per_second",
)
"""Measures of the terminal's table; the files have all."""
_COMPARISON = (
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "p_value",
    "p_value_holm",
    "p_value_stratified",
    "not_compared",
)


def write_tables(runs: Sequence[Run], directory: Path, *, baseline: str | None) -> str:
    """Write leaderboard.csv, groups.csv and report.html.

    Args:
        runs: The runs in the order of the leaderboard.
        directory: Created if it does not exist.
        baseline: The group that the others are compared with; see `compare_with_baseline`.

    Returns:
        The table for a terminal: of the groups if seeds were swept, else of the runs.

    Raises:
        ValueError: No group is called like the baseline.
    """
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    directory.mkdir(parents=True, exist_ok=True)
    _write_csv(directory / LEADERBOARD, _leaderboard(runs))
    _write_csv(directory / GROUPS, _group_table(groups, comparisons))
    # Imported here because a training needs no translator before the end of its sweep.
    from seq2seq.cli.studies.page import write_report

    write_report(runs, groups, comparisons, directory / REPORT)
    failures = [f"{run.name} failed: {run.failure}" for run in runs if run.failure is not None]
    warnings = [f"warning: {text}" for text in describe_repeated_seeds(groups)]
    return "\n".join([_format_groups(groups, comparisons), *failures, *warnings])


def list_files(directory: Path) -> str:
    """Return the paths of the files that `write_tables` writes, one a line."""
    return "\n".join(f"{directory}/{name}" for name in (LEADERBOARD, GROUPS, REPORT))


def _leaderboard(runs: Sequence[Run]) -> list[list[str]]:
    """Return the header and a row for each run."""
    keys = list(runs[0].swept) if runs else []
    rows = [["run", *keys, *MEASURES, "failure"]]
    for run in runs:
        values = [
            format(run.results.measures[name], measure.form) if name in run.results.measures else ""
            for name, measure in MEASURES.items()
        ]
        rows.append([run.name, *run.swept.values(), *values, run.failure or ""])
    return rows


def _group_table(
    groups: Sequence[Group], comparisons: Sequence[BaselineComparison]
) -> list[list[str]]:
    """Return the header and a row for each group, with unrounded numbers."""
    keys = list(groups[0].swept) if groups else []
    measures = [f"{name}{end}" for name in MEASURES for end in ("", "_deviation")]
    rows = [[*keys, "runs", "failed_runs", *measures, *_COMPARISON]]
    for group, compared in zip(groups, comparisons, strict=True):
        values = [value for name in MEASURES for value in group.spread(name)]
        counts = [str(len(group.runs)), str(group.num_failed)]
        found = compared.result
        numbers = (
            [None] * 6
            if found is None
            else [found.effect, *found.interval, found.p_value, compared.holm, found.p_stratified]
        )
        rows.append(
            [
                *group.swept.values(),
                *counts,
                *map(_number, values),
                compared.baseline,
                *map(_number, numbers),
                compared.reason,
            ]
        )
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def _write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    with whole_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))


def _format_groups(groups: Sequence[Group], comparisons: Sequence[BaselineComparison]) -> str:
    """Format the groups as a table; groups of one run each are shown by the names of the runs."""
    if not groups:
        return "no run has results"
    has_seeds = any(len(group.runs) > 1 or SEED in group.runs[0].swept for group in groups)
    keys = list(groups[0].swept)
    names = [*keys, "runs"] if has_seeds else ["run"]
    measures = known_measures(groups, _IN_TERMINAL)
    headers = [*names, *measures]
    rows = []
    for group in groups:
        label = [*group.swept.values(), str(len(group.runs))] if has_seeds else [group.runs[0].name]
        cells = [spread_text(shown_spread(group, name), MEASURES[name].form) for name in measures]
        rows.append([*label, *cells])
    if len(groups) > 1:
        headers += ["difference", "p"]
        for row, compared in zip(rows, comparisons, strict=True):
            row += _comparison_cells(compared)
    alignment = ["left"] * len(names) + ["right"] * (len(headers) - len(names))
    return tabulate(
        rows, headers=headers, tablefmt="plain", disable_numparse=True, colalign=alignment
    )


def _comparison_cells(compared: BaselineComparison) -> list[str]:
    """Format the difference from the baseline with its interval, and the corrected p-value."""
    if compared.result is None:
        return ["-" if compared.reason else "baseline", "-"]
    low, high = compared.result.interval
    return [f"{compared.result.effect:+.2f} [{low:.2f}, {high:.2f}]", f"{compared.holm:.3f}"]
