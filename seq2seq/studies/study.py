"""Write what a study found: tables in CSV, report.html, and tables and figures for a paper."""

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seq2seq.analysis.interventions import Intervention
from seq2seq.files.atomic import whole_file
from seq2seq.studies.agreement import add_agreement, divergences
from seq2seq.studies.charts import LengthScore, bleu_by_length
from seq2seq.studies.comparison import (
    COMPARED,
    IN_TERMINAL,
    Agreement,
    BaselineComparison,
    compare_measures,
    compare_with_baseline,
    group_table,
    stars,
)
from seq2seq.studies.probes import LOSS_COLUMNS, loss_row, measure_attributions, measure_losses
from seq2seq.studies.report import Study, not_compared, study_page
from seq2seq.studies.runs import RUN_MEASURES, StudyRun, group_runs
from seq2seq.visualization.page import Section, render_report
from seq2seq.visualization.paper import PaperFormat, table_text, write_paper

LEADERBOARD, GROUPS, LENGTHS = "leaderboard.csv", "groups.csv", "lengths.csv"
LOSSES = "interventions.csv"
REPORT, PAPER = "report.html", "paper"
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


def write_tables(
    runs: Sequence[StudyRun],
    directory: Path,
    *,
    baseline: str | None,
    interventions: Sequence[Intervention] = (),
    length_bins: Sequence[int | str] = (),
    attributions: bool = False,
    paper: PaperFormat | None = None,
) -> str:
    """Write tables in CSV, with interventions also interventions.csv, and report.html.

    Args:
        runs: The runs in the order of the leaderboard.
        directory: Created if it does not exist.
        baseline: The group to compare with; see `compare_with_baseline`.
        interventions: Changes of attention weights with which the test set is translated again.
        length_bins: Upper limits of the ranges of source length; none for about the same number of
            sentences in each.
        attributions: Whether attention is compared with erasure and gradient.
        paper: Format of a folder with every table and figure of the report, and a short table of
            the groups; None writes no such folder.

    Returns:
        The table of the groups for a terminal, with notes and warnings.

    Raises:
        ValueError: No group fits the baseline.
    """
    if attributions:
        measure_attributions(runs)
    study = find_differences(runs, baseline, interventions, length_bins)
    groups = study.groups
    directory.mkdir(parents=True, exist_ok=True)
    keys = list(runs[0].swept) if runs else []
    _write_csv(
        directory / LEADERBOARD, ["run", *keys, *RUN_MEASURES, "failure"], map(_run_row, runs)
    )
    keys = list(groups[0].swept) if groups else []
    measures = [f"{name}{end}" for name in RUN_MEASURES for end in ("", "_deviation")]
    compared = [f"{name}_{end}" for name in COMPARED for end in ("difference", "low", "high", "p")]
    _write_csv(
        directory / GROUPS,
        [*keys, "runs", "failed_runs", *measures, *_COMPARISON, *compared, *Agreement._fields],
        map(_group_row, study.comparisons),
    )
    of_lengths = map(LengthScore._asdict, study.lengths)
    _write_csv(directory / LENGTHS, LengthScore._fields, of_lengths)
    warnings = []
    if interventions:
        _write_csv(directory / LOSSES, LOSS_COLUMNS, map(loss_row, study.losses))
    elif (directory / LOSSES).exists():  # left by an earlier report
        (directory / LOSSES).unlink()
        warnings.append(f"Removed the old {LOSSES}; interventions=... writes a new one.")
    page = study_page(study, name=directory.resolve().name)
    with whole_file(directory / REPORT) as file:
        file.write(render_report(page))
    shown, short = "no run has results", Section(title="Main measures")
    if groups:
        table = group_table(study.comparisons, IN_TERMINAL)
        shown = table_text(table, "plain")
        caption = f"{short.title}{table.caption.removeprefix('Groups')}"
        short.tables = [dataclasses.replace(table, caption=caption)]
    if paper is not None:
        write_paper([*page["sections"], short], directory / PAPER, paper)
    elif (directory / PAPER).exists():
        warnings.append(f"{PAPER}/ is from an earlier report; format=... writes it again.")
    texts = [f"warning: {text}" for text in (*warnings, *not_compared(study))]
    return "\n".join([shown, *stars(each.result for each in study.comparisons), *texts])


def find_differences(
    runs: Sequence[StudyRun],
    baseline: str | None,
    interventions: Sequence[Intervention] = (),
    length_bins: Sequence[int | str] = (),
) -> Study:
    """Compare all measures and the attention of the groups, and intervene; see `write_tables`."""
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    notes: list[str] = []
    compare_measures(comparisons, notes)
    agreement = divergences([run for group in groups for run in group.runs])
    add_agreement(comparisons, agreement, notes)
    losses = measure_losses(groups, interventions, notes)
    lengths = bleu_by_length(groups, length_bins, notes)
    return Study(runs, comparisons, agreement, losses, notes, lengths)


def list_files(directory: Path, *, with_paper: bool = False) -> str:
    """Return the paths of what `write_tables` has written, one per line."""
    names = [LEADERBOARD, GROUPS, LENGTHS, LOSSES, REPORT, *[PAPER] * with_paper]
    paths = (directory / name for name in names)
    return "\n".join(str(path) for path in paths if path.exists())


def _run_row(run: StudyRun) -> dict[str, object]:
    return {"run": run.name, **run.swept, **run.measures, "failure": run.failure}


def _group_row(compared: BaselineComparison) -> dict[str, object]:
    group = compared.group
    row = {"runs": len(group.runs), "failed_runs": group.num_failed, **group.swept}
    for name in RUN_MEASURES:
        row[name], row[f"{name}_deviation"] = group.spread(name)
    for name, each in compared.measures.items():
        row |= each.row(name, "_difference")
    if compared.attention is not None:
        row |= compared.attention._asdict()
    found, baseline = compared.result, compared.baseline
    if found is None or baseline is None:
        return row | {"not_compared": compared.reason}
    p_values = found.p_value, found.p_corrected
    values = [baseline.label, found.effect, *found.interval, *p_values, found.covers]
    return row | dict(zip(_COMPARISON, values, strict=False))


def _write_csv(path: Path, keys: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write unrounded numbers; what a row lacks stays empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, keys, extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.12g}" if isinstance(v, float) else v for k, v in row.items()})
    with whole_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))
