"""How well the attention of each group agrees with erasure and gradient, over its seeds."""

import logging
from collections.abc import Sequence

import numpy as np

from seq2seq.analysis.run import Run
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import MEASURES, Sentences, measure, ratio, total_scores
from seq2seq.evaluation.significance import compare_groups
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.studies.tables import column, number_cell
from seq2seq.visualization.page import Cell, Column, Section, Table

logger = logging.getLogger(__name__)

TAUS = [name for name, each in MEASURES.items() if each.needs == "attributions"]


def measure_attributions(runs: Sequence[StudyRun]) -> None:
    """Add the correlations of attention, erasure and gradient on the test set to each run.

    A correlation that no target word has, as without attention, is left out. A run that cannot be
    measured is left out with a warning.
    """
    for run in (run for run in runs if run.failure is None):
        try:
            found = Run(run.directory.path).attributions()
        except USER_ERRORS as error:
            logger.warning("%s has no attributions: %s", run.name, describe_error(error))
            continue
        for name, rows in measure(Sentences(attributions=found), TAUS).items():
            if rows[..., 1].any():
                run.statistics[name] = rows
                run.measures |= total_scores({name: rows})


def attribution_section(groups: Sequence[Group]) -> Section:
    """Return the table of the correlations; empty if no run was measured."""
    if not any(name in run.statistics for group in groups for run in group.runs for name in TAUS):
        return Section(title="Is attention an explanation?")
    columns = [Column("Group", is_numeric=False), Column("Runs")]
    for name in TAUS:
        columns += [column(name), Column("95% interval", hint="over seeds and sentences")]
    text = (
        "For each target word, the source words are ranked by attention, by what its probability "
        "loses without them (erasure), and by the gradient times their embeddings. Kendall's tau "
        "of two rankings is 1 if they are equal, about 0 if they are unrelated. Erasure and "
        "gradient do not agree completely. A single run's interval covers these sentences only."
    )
    table = Table(caption="Rank correlations", columns=columns, rows=list(map(_row, groups)))
    return Section(title="Is attention an explanation?", paragraphs=[text], tables=[table])


def _row(group: Group) -> list[Cell]:
    cells = [Cell(group.label), Cell(str(len(group.runs)), len(group.runs))]
    for name in TAUS:
        found = [run.statistics[name][:, 0] for run in group.runs if name in run.statistics]
        if len({len(rows) for rows in found}) != 1:  # no run has it, or the test sets differ
            cells += [Cell("-"), Cell("-")]
            continue
        taus = np.stack(found)
        compared = compare_groups(taus, np.zeros_like(taus), score=ratio, paired=True)
        low, high = compared.interval
        cells += [number_cell(compared.effect, ".2f"), Cell(f"{low:.2f} to {high:.2f}", low)]
    return cells
