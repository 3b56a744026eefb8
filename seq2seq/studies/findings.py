"""What a study finds beyond the scores of its runs: measures, agreement, interventions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seq2seq.inference.interventions import Intervention
from seq2seq.studies.agreement import Divergences, compare_attention, divergences
from seq2seq.studies.interventions import Row, measure_losses
from seq2seq.studies.measures import RareWords, Reading, compare_measures, read_run
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.studies.tables import BaselineComparison

AGREEMENT = ("agreement_within", "agreement_between", "agreement_p")


class Findings(NamedTuple):
    """The findings of a study."""

    measures: Sequence[dict[str, float]] = ()
    """More columns of each group in groups.csv."""
    agreement: Divergences | None = None
    """How far the attention of each two runs differs."""
    losses: Sequence[Row] = ()
    """What each group loses by each intervention."""
    notes: Sequence[str] = ()
    """What is left out."""
    readings: Mapping[StudyRun, Reading] = {}
    """The test set as each run reads it."""


NOTHING = Findings()


def find(
    groups: Sequence[Group],
    comparisons: Sequence[BaselineComparison],
    interventions: Sequence[Intervention] = (),
) -> Findings:
    """Let the runs read the test set again; measures that results.json lacks join the runs' own."""
    rare_words = RareWords()
    readings = {run: read_run(run, rare_words) for group in groups for run in group.runs}
    by_label = {group.label: group for group in groups}
    baselines = [by_label.get(each.baseline) for each in comparisons]
    measures = compare_measures(groups, baselines, readings)
    agreement = divergences(readings)
    for row, group, baseline in zip(measures, groups, baselines, strict=True):
        if baseline is not None:
            found = compare_attention(agreement, group, baseline)
            row |= dict(zip(AGREEMENT, found, strict=True)) if found else {}
    notes: list[str] = []
    losses = measure_losses(groups, interventions, readings, notes)
    return Findings(measures, agreement, losses, notes, readings)
