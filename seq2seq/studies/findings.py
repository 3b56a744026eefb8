"""What a study finds beyond the scores of its runs: measures, agreement, interventions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seq2seq.evaluation.significance import LEVEL, holm
from seq2seq.inference.interventions import Intervention
from seq2seq.studies.agreement import (
    Divergences,
    compare_attention,
    divergences,
    least_p_value,
    seeds_needed,
)
from seq2seq.studies.comparison import BaselineComparison
from seq2seq.studies.interventions import Row, measure_losses
from seq2seq.studies.measures import RareWords, Reading, compare_measures, read_run
from seq2seq.studies.runs import Group, StudyRun

AGREEMENT = ("agreement_within", "agreement_between", "agreement_p", "agreement_seeds_needed")


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
    notes: list[str] = []
    measures = compare_measures(groups, baselines, readings, notes)
    agreement = divergences(readings)
    _compare_attention(groups, baselines, agreement, measures, notes)
    losses = measure_losses(groups, interventions, readings, notes)
    return Findings(measures, agreement, losses, notes, readings)


def _compare_attention(
    groups: Sequence[Group],
    baselines: Sequence[Group | None],
    agreement: Divergences,
    rows: Sequence[dict[str, float]],
    notes: list[str],
) -> None:
    """Add the `AGREEMENT` of each group and its baseline to its row.

    A p-value that cannot be significant, given the number of runs and of comparisons, is left out.
    """
    tested: list[tuple[dict[str, float], float, float]] = []
    for row, group, baseline in zip(rows, groups, baselines, strict=True):
        if baseline is not None and (found := compare_attention(agreement, group, baseline)):
            row |= dict(zip(AGREEMENT[:2], found, strict=False))
            least = least_p_value(len(group.runs), len(baseline.runs))
            tested.append((row, found[2], least))
    able = [(row, p_value) for row, p_value, least in tested if len(tested) * least < LEVEL]
    for (row, _), p_value in zip(able, holm([p_value for _, p_value in able]), strict=True):
        row["agreement_p"] = p_value
    if unable := [row for row, _, least in tested if len(tested) * least >= LEVEL]:
        number = seeds_needed(len(tested))
        for row in unable:
            row["agreement_seeds_needed"] = number
        comparisons = "1 comparison" if len(tested) == 1 else f"{len(tested)} comparisons"
        notes.append(
            f"Whether attention differs from that of the baseline is not tested in {len(unable)} "
            f"of {len(tested)} groups: for {comparisons}, p can be below {LEVEL} with {number} or "
            "more seeds of each group."
        )
