"""Probe trained models: what other attention weights cost, and what attention agrees with."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from seq2seq.analysis.interventions import DropHead, Intervention, count_changed_words
from seq2seq.analysis.run import Run
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import MEASURES, Sentences, measure, ratio, total_scores
from seq2seq.evaluation.metrics import Array, corpus_bleu
from seq2seq.evaluation.significance import (
    GroupComparison,
    Score,
    compare_groups,
    correct,
)
from seq2seq.studies.comparison import (
    GROUP,
    INTERVAL_HINT,
    RUNS,
    Difference,
    column,
    number_column,
    stars,
    text_column,
)
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.visualization.page import Cell, Column, Part, Section, Table

logger = logging.getLogger(__name__)

Sides = dict[str, tuple[Array, Array]]
"""Statistics (S, K) of a run after and before a change, for each loss."""


def _as_factor(found: Difference) -> Difference:
    """Return a difference of losses in nats as a factor of the perplexity."""
    effect, low, high = (math.exp(n) if n < 700 else math.inf for n in found[:3])
    return found._replace(effect=effect, low=low, high=high)


def _as_share(found: Difference) -> Difference:
    """Return a share; the interval is computed for its logit, so that it lies between 0 and 1."""
    share, low, high = found[:3]
    if not 0 < share < 1:
        return found._replace(low=share, high=share)
    half = (high - low) / 2 / (share * (1 - share))  # of the logit, by the delta method
    middle = math.log(share / (1 - share))
    # The logistic function of both ends, written with tanh, which does not overflow.
    low, high = ((1 + math.tanh((middle + end) / 2)) / 2 for end in (-half, half))
    return found._replace(low=low, high=high)


class Loss(NamedTuple):
    """A number that says what a change of the weights costs."""

    title: str
    form: str
    hint: str
    score: Score
    convert: Callable[[Difference], Difference] = lambda found: found
    """Function that converts the difference of the scores into the number."""
    is_tested: bool = True
    """Whether the number may differ from 0 by chance, and so has a p-value."""


LOSSES = {
    "bleu_lost": Loss(
        "BLEU lost",
        ".2f",
        "test BLEU of the unchanged models minus test BLEU with other weights",
        corpus_bleu,
    ),
    "perplexity_factor": Loss(
        "Perplexity \xd7", ".2f", "factor of the perplexity of the references", ratio, _as_factor
    ),
    "changed_words": Loss(
        "Changed words",
        ".3f",
        "share of the words of both translations that differ",
        ratio,
        _as_share,
        is_tested=False,
    ),
}


@dataclass(kw_only=True, slots=True)
class GroupLosses:
    """Loss of a group from an intervention, or of a run from a change of one of its heads."""

    label: str
    """Label of the group, or name of the run."""
    intervention: str
    num_runs: int
    """Number of the runs that could be changed."""
    losses: dict[str, Difference] = field(default_factory=dict)
    """The `LOSSES` that could be measured; empty without runs."""


def measure_losses(
    groups: Sequence[Group],
    interventions: Sequence[Intervention],
    notes: list[str],
) -> list[GroupLosses]:
    """Translate the test set of each run with each intervention, and test the losses.

    Each run is paired with itself, unchanged. The p-values and the intervals of a group have
    Holm's correction over its interventions. An intervention that changes nothing, such as
    `uniform` if weights are already equal, is no comparison and has no p-value.

    Args:
        groups: The groups.
        interventions: The changes; duplicates are tested once.
        notes: A run that cannot be changed adds a line, and is left out.
    """
    found: list[GroupLosses] = []
    interventions = list({str(each): each for each in interventions}.values())
    for group in groups:
        if len({run.test_set for run in group.runs} - {None}) > 1:
            notes.append(f"{group.label} has no interventions: its runs have different test sets.")
            continue
        rows, of_rows = [], []
        for each in interventions:
            for label, runs in _rows(group, each):
                sides, failures = _intervene_all(runs, each, label)
                rows.append(GroupLosses(label=label, intervention=str(each), num_runs=len(sides)))
                of_rows.append(sides)
                for name, reason in failures.items():
                    notes.append(f"{name} is left out: {reason}.")
        _compare(rows, of_rows)
        found += rows
    return found


def _rows(group: Group, intervention: Intervention) -> list[tuple[str, Sequence[StudyRun]]]:
    """Return the label and the runs of each row of an intervention.

    Heads have no order, so each seed has a row of its own.
    """
    if isinstance(intervention, DropHead) and any(len(run.heads) > 1 for run in group.runs):
        return [(group.name_of(run), [run]) for run in group.runs]
    return [(group.label, group.runs)]


def _intervene_all(
    runs: Sequence[StudyRun], intervention: Intervention, label: str
) -> tuple[list[Sides], dict[str, str]]:
    """Return the statistics of the runs, and failures by the name of the run.

    If all runs fail for the same reason, there is one failure, under the label.
    """
    sides, failures = [], {}
    for run in runs:
        try:
            sides.append(_intervene(run, intervention))
        except USER_ERRORS as error:
            failures[run.name] = describe_error(error)
    if not sides and len(set(failures.values())) == 1:
        failures = {label: next(iter(failures.values()))}
    return sides, failures


def _intervene(run: StudyRun, intervention: Intervention) -> Sides:
    """Return two statistics for each of the `LOSSES`; the loss is the difference of their
    scores."""
    found = Run(run.directory.path).intervene(intervention)
    before, after = (
        {n: rows[:, 0] for n, rows in each.items()} for each in (run.statistics, found.statistics)
    )
    lines = [each.text for each in found.translations]
    changed = np.array(list(map(count_changed_words, run.translations, lines)), dtype=np.float64)
    return {
        "bleu_lost": (before["bleu"], after["bleu"]),
        "perplexity_factor": (after["loss"][:, :2], before["loss"][:, :2]),
        "changed_words": (changed, np.zeros_like(changed)),
    }


def _compare(rows: Sequence[GroupLosses], of_rows: Sequence[Sequence[Sides]]) -> None:
    """Add the losses of a group's rows, with Holm's correction over those that change something."""
    for name, loss in LOSSES.items():
        compared: dict[int, GroupComparison] = {}
        tested = []
        for i, of_runs in enumerate(of_rows):
            if of_runs:
                sides = map(np.stack, zip(*(each[name] for each in of_runs), strict=True))
                after, before = sides
                compared[i] = compare_groups(after, before, score=loss.score, paired=True)
                if loss.is_tested and not np.allclose(after, before):
                    tested.append(i)
        corrected = correct([compared[i] for i in tested])
        compared |= zip(tested, corrected, strict=True)
        for i, found in compared.items():
            lost = loss.convert(Difference.of(found))
            rows[i].losses[name] = lost if i in tested else lost._replace(p_value=None)


LOSS_COLUMNS = ["group", "intervention", "runs"]
LOSS_COLUMNS += [name + end for name in LOSSES for end in ("", "_low", "_high", "_p")]
LOSS_COLUMNS.remove("changed_words_p")
LOSS_COLUMNS.append("p_covers")


def loss_row(row: GroupLosses) -> dict[str, object]:
    """Return the values of the `LOSS_COLUMNS`, where they are known."""
    found: dict[str, object] = {"group": row.label, "intervention": row.intervention}
    found["runs"] = row.num_runs
    for name, loss in row.losses.items():
        found |= loss.row(name) | {"p_covers": loss.covers}
    return found


def interventions_section(rows: Sequence[GroupLosses]) -> Section:
    """Return a short table of the losses and one with all figures; empty without rows."""
    if not rows:
        return Section(title="Interventions")
    text = (
        "The trained models translate the test set again with other attention weights; nothing "
        "is trained. A model that loses nothing does not need its own weights for these "
        "sentences. A model that loses much needs its own weights, but another model might do "
        "without them. Each run is compared with itself, so the intervals "
        "and p-values are about other seeds and other sentences. An intervention that changes "
        "nothing has no p. Heads do not correspond between seeds, so each run has a row of its "
        "own; drop_head:1 removes the whole context of a model with one head."
    )
    star = stars(loss for row in rows for loss in row.losses.values())
    table = Table.of(
        "; ".join(["Other attention weights: all figures", *star]),
        rows,
        GROUP,
        text_column("Intervention", attrgetter("intervention")),
        number_column("Runs", attrgetter("num_runs")),
        *map(_loss_columns, LOSSES),
        is_folded=True,
    )
    return Section(title="Interventions", paragraphs=[text], tables=[_short_table(rows), table])


def _loss_columns(name: str) -> Part[GroupLosses]:
    """Return the columns of a loss: the number, its interval and, if there is one, its p-value."""
    loss = LOSSES[name]
    columns = [
        Column(loss.title, hint=loss.hint),
        Column("Interval", hint=INTERVAL_HINT) if loss.is_tested else Column("95% interval"),
        Column("p (Holm)", hint="corrected over the interventions of the group"),
    ][: 3 if loss.is_tested else 2]

    def cells(row: GroupLosses) -> list[Cell]:
        found = row.losses.get(name)
        return ([Cell("-")] * 3 if found is None else found.cells(loss.form))[: len(columns)]

    return columns, cells


def _short_table(rows: Sequence[GroupLosses]) -> Table:
    """Return a row for each group and a column for each intervention."""
    names = list(dict.fromkeys(row.intervention for row in rows))
    lost = {(row.label, row.intervention): row.losses.get("bleu_lost") for row in rows}

    def cells(label: str) -> list[Cell]:
        found = (lost.get((label, name)) for name in names)
        return [Cell("-") if each is None else each.cell(".2f") for each in found]

    labels = dict.fromkeys(row.label for row in rows)
    columns = list(map(Column, names))
    return Table.of(
        "BLEU lost with other weights", labels, text_column("Group", str), (columns, cells)
    )


TAUS = [name for name, each in MEASURES.items() if each.needs == "taus"]


def measure_attributions(runs: Sequence[StudyRun]) -> None:
    """Add the correlations of attention, erasure and gradient on the test set to each run.

    A correlation without any target word, for example without attention, is left out. A run that
    cannot be measured is left out with a warning.
    """
    for run in (run for run in runs if run.failure is None):
        try:
            found = Run(run.directory.path).attributions()
        except USER_ERRORS as error:
            logger.warning("%s has no attributions: %s", run.name, describe_error(error))
            continue
        taus = {name: [getattr(each, name) for each in found] for name in TAUS}
        for name, rows in measure(Sentences(taus=taus), TAUS).items():
            if rows[..., 1].any():
                run.statistics[name] = rows
                run.measures |= total_scores({name: rows})


def attribution_section(groups: Sequence[Group]) -> Section:
    """Return the table of the correlations; empty if no run was measured."""
    title = "Is attention an explanation?"
    if not any(name in run.statistics for group in groups for run in group.runs for name in TAUS):
        return Section(title=title)
    text = (
        "For each target word, the source words are ranked by attention, by what its probability "
        "loses without them (erasure), and by the gradient times their embeddings. Kendall's tau "
        "of two rankings is 1 if they are equal, about 0 if they are unrelated. Erasure and "
        "gradient do not agree completely. A single run's interval covers these sentences only."
    )
    table = Table.of("Rank correlations", groups, GROUP, RUNS, *map(_tau_columns, TAUS))
    return Section(title=title, paragraphs=[text], tables=[table])


def _tau_columns(name: str) -> Part[Group]:
    """Return the columns of a correlation: the mean over the runs, and its interval."""

    def cells(group: Group) -> list[Cell]:
        found = [run.statistics[name][:, 0] for run in group.runs if name in run.statistics]
        if len({len(rows) for rows in found}) != 1:  # no run has the tau, or test sets differ
            return [Cell("-"), Cell("-")]
        taus = np.stack(found)
        compared = compare_groups(taus, np.zeros_like(taus), score=ratio, paired=True)
        return Difference.of(compared).cells(".2f")[:2]

    return [column(name), Column("95% interval", hint="over seeds and sentences")], cells
