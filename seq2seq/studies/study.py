"""Compare the runs of a study, and write the tables and the report."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.files.atomic import whole_file
from seq2seq.studies.agreement import compare_agreement, divergences, link_errors, places_of
from seq2seq.studies.comparison import bleu_by_length, compare, find_baselines, summarize
from seq2seq.studies.interventions import Intervention
from seq2seq.studies.probes import measure_attributions, measure_losses
from seq2seq.studies.report import not_compared, render_report, study_page, table_text, tables_text
from seq2seq.studies.runs import RUN_MEASURES, finished_runs
from seq2seq.studies.sentences import with_first_test_set
from seq2seq.studies.tables import IN_TERMINAL, Study, group_table, star, swept_values
from seq2seq.training.run_directory import RunDirectory

LEADERBOARD, GROUPS, DIFFERENCES = "leaderboard.csv", "groups.csv", "differences.csv"
LENGTHS, LOSSES, REPORT = "lengths.csv", "interventions.csv", "report.html"
TABLES = {"latex": "tables.tex", "markdown": "tables.md"}
"""File with the tables of the report in each format."""


def find_differences(
    runs: pd.DataFrame, baseline: str | None, interventions: Sequence[Intervention] = ()
) -> Study:
    """Compare all measures and the attention of the groups, and intervene; see `write_tables`."""
    notes: list[str] = []
    finished = finished_runs(runs)
    baselines = find_baselines(finished, baseline)
    differences = compare(finished, baselines["baseline"], notes)
    divergence = divergences(list(finished["maps"]))
    links = link_errors(list(finished["maps"]))
    agreement = compare_agreement(
        divergence, links, places_of(finished), baselines["baseline"], notes
    )
    groups = summarize(finished)
    num_failed = runs[runs["failure"] != ""].groupby("group").size()
    groups.insert(1, "failed_runs", num_failed.reindex(groups.index).fillna(0).astype(int))
    groups = groups.join(baselines.rename(columns={"reason": "not_compared"})).join(agreement)
    losses = measure_losses(finished, interventions, notes)
    comparable = with_first_test_set(finished)
    sources: list[str] = []
    for path in comparable["path"][:1]:
        try:
            sources, _ = RunDirectory(path).read_texts("test", ("src", "ref"))
        except USER_ERRORS as error:
            notes.append(f"BLEU by source length is not shown: {describe_error(error)}.")
    lengths = bleu_by_length(comparable, sources, notes)
    return Study(
        *(runs, finished, groups, differences, divergence, links, losses, lengths, sources, notes)
    )


def write_tables(
    runs: pd.DataFrame,
    directory: Path,
    *,
    baseline: str | None,
    interventions: Sequence[Intervention] = (),
    attributions: bool = False,
    tables: str | None = None,
) -> str:
    """Write tables in CSV, with interventions also interventions.csv, and report.html.

    Args:
        runs: The runs in the order of the leaderboard.
        directory: Created if it does not exist.
        baseline: The group to compare with; see `find_baselines`.
        interventions: Changes of attention weights with which the test set is translated again.
        attributions: Whether attention is compared with erasure and gradient.
        tables: Format of a file with every table of the report, `latex` or `markdown`; None writes
            no such file.

    Returns:
        The table of the groups for a terminal, with notes and warnings.

    Raises:
        ValueError: No group fits the baseline.
    """
    if attributions:
        measure_attributions(runs)
    study = find_differences(runs, baseline, interventions)
    directory.mkdir(parents=True, exist_ok=True)
    swept = pd.DataFrame(list(runs["swept"]), index=runs.index)
    files = {
        LEADERBOARD: pd.concat([runs["run"], swept, runs[[*RUN_MEASURES, "failure"]]], axis=1),
        GROUPS: swept_values(study).join(study.groups).reset_index(),
        DIFFERENCES: study.differences.reset_index(),
        LENGTHS: study.lengths,
    }
    warnings = []
    if interventions:
        files[LOSSES] = study.losses
    elif (directory / LOSSES).exists():  # left by an earlier report
        (directory / LOSSES).unlink()
        warnings.append(f"Removed the old {LOSSES}; interventions=... writes a new one.")
    for name, frame in files.items():  # unrounded numbers
        _write(directory / name, frame.to_csv(index=False, float_format="%.12g"))
    page = study_page(study, name=directory.resolve().name)
    _write(directory / REPORT, render_report(page))
    if tables is not None:
        _write(directory / TABLES[tables], tables_text(page, tables))
    shown = "no run has results"
    if len(study.groups):
        shown = table_text(group_table(study, IN_TERMINAL), "plain")
        shown += star(study.differences["covers"]).replace("; ", "\n", 1)
    return "\n".join([shown, *(f"warning: {text}" for text in (*warnings, *not_compared(study)))])


def list_files(directory: Path) -> str:
    """Return the paths of what `write_tables` has written, one per line."""
    names = [LEADERBOARD, GROUPS, DIFFERENCES, LENGTHS, LOSSES, REPORT, *TABLES.values()]
    return "\n".join(str(directory / name) for name in names if (directory / name).exists())


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "replace"))
