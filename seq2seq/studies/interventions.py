"""What the models of a study lose with other attention weights, tested over seeds and sentences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.alignment import read_links
from seq2seq.evaluation.metrics import Array, ScoringRule, corpus_bleu, sentence_statistics
from seq2seq.evaluation.significance import GroupComparison, Score, compare_groups, holm, p_text
from seq2seq.inference.interventions import (
    Intervention,
    OnHead,
    Other,
    count_changed_words,
    intervene,
)
from seq2seq.studies.measures import Reading, losses, ratio
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.visualization.page import Cell, Column, Section, Table

ENDINGS = ("", "_low", "_high", "_p")


class _Loss(NamedTuple):
    """A number that says what a change of the weights costs."""

    title: str
    form: str
    hint: str
    score: Score
    present: Callable[[float], float] = float
    """Turns the difference of the scores into the number."""


_LOSSES = {
    "bleu_lost": _Loss(
        "BLEU lost",
        ".2f",
        "test BLEU of the unchanged models minus that with other weights",
        corpus_bleu,
    ),
    "perplexity_factor": _Loss(
        "Perplexity \xd7",
        ".2f",
        "factor of the perplexity of the references",
        ratio,
        lambda nats: float(np.exp(min(nats, 700))),
    ),
    "changed_words": _Loss(
        "Changed words", ".3f", "share of words, of both translations, that differ", ratio
    ),
}
COLUMNS = ["group", "intervention", "runs", *(name + end for name in _LOSSES for end in ENDINGS)]
COLUMNS.remove("changed_words_p")  # no word changes by chance

Row = dict[str, float | str]


def measure_losses(
    groups: Sequence[Group],
    interventions: Sequence[Intervention],
    readings: Mapping[StudyRun, Reading],
    notes: list[str],
) -> list[Row]:
    """Translate the test set of each run with each intervention, and test what it loses.

    Each run is paired with itself, unchanged. The p-values have Holm's correction over all rows.

    Args:
        groups: The groups.
        interventions: The changes. `other:LABEL` takes the weights of the run with the same number
            of that group, and `other:seed`, or the label of the own group, of the next run.
        readings: What `read_run` returned for each run of the groups.
        notes: A run that cannot be changed adds a line, and is left out.

    Returns:
        A row for each group and intervention, and for each run if it changes one of several heads,
        with the `COLUMNS`, as far as they are known.
    """
    rows: list[Row] = []
    tested: dict[str, list[tuple[Row, GroupComparison]]] = {name: [] for name in _LOSSES}
    for group, intervention in product(groups, interventions):
        for label, runs in _rows(group, intervention):
            found = []
            for run in runs:
                try:
                    chosen = _choose_run(intervention, groups, group, run)
                    found.append(_intervene(run, chosen, readings[run]))
                except USER_ERRORS as error:
                    notes.append(f"{run.name} is left out: {describe_error(error)}.")
            row: Row = {"group": label, "intervention": str(intervention), "runs": len(found)}
            rows.append(row)
            for name in found[0] if found else ():
                sides = map(np.stack, zip(*(pairs[name] for pairs in found), strict=True))
                compared = compare_groups(*sides, score=_LOSSES[name].score, paired=True)
                tested[name].append((row, compared))
    for name, of_rows in tested.items():
        present = _LOSSES[name].present
        p_values = holm([each.p_value for _, each in of_rows])
        for (row, each), p_value in zip(of_rows, p_values, strict=True):
            numbers = map(present, (each.effect, *each.interval))
            values = zip(ENDINGS, (*numbers, p_value), strict=True)
            row |= {name + end: value for end, value in values if name + end in COLUMNS}
    return rows


def _rows(group: Group, intervention: Intervention) -> list[tuple[str, Sequence[StudyRun]]]:
    """Return the label and the runs of each row; heads have no order, so seeds do not share one."""
    if isinstance(intervention, OnHead) and any(len(run.heads) > 1 for run in group.runs):
        return [
            (f"{group.label}, seed {run.seed}" if run.seed else run.name, [run])
            for run in group.runs
        ]
    return [(group.label, group.runs)]


def _choose_run(
    intervention: Intervention, groups: Sequence[Group], group: Group, run: StudyRun
) -> Intervention:
    """Return the intervention for a run, with the path of the other run in place of its label."""
    if not isinstance(intervention, Other):
        return intervention
    index = group.runs.index(run)
    if intervention.argument not in ("seed", group.label):
        others = [each.runs for each in groups if each.label == intervention.argument]
        if not others:
            return intervention  # a path
        return replace(intervention, argument=str(others[0][index % len(others[0])].directory.path))
    if len(group.runs) < 2:
        raise ValueError(f"intervention {intervention}: {group.label} has a single run")
    other = group.runs[(index + 1) % len(group.runs)]
    return replace(intervention, argument=str(other.directory.path))


def _intervene(
    run: StudyRun, intervention: Intervention, reading: Reading
) -> dict[str, tuple[Array, Array]]:
    """Return two statistics (S, K) for each known loss of `_LOSSES`; their scores differ by it."""
    directory = run.directory
    sources, translations, references = directory.read_texts("test", ("src", "hyp", "ref"))
    gold = directory.text("test", "gold")
    rule = ScoringRule.of_signature(run.signature)
    found = intervene(
        directory.path,
        intervention,
        sources=sources,
        translations=translations,
        references=references,
        perplexity=run.measures["perplexity"],
        gold=list(read_links(str(gold))) if gold.is_file() else None,
        rule=rule,
    )
    known = {"perplexity_factor": (losses(found.references), reading.statistics["perplexity"])}
    if found.bleu is None:
        return known
    lines = [each.text for each in found.translations]
    changed = np.array(list(map(count_changed_words, translations, lines)), dtype=np.float64)
    before, after = (
        sentence_statistics(each, references, rule=rule) for each in (translations, lines)
    )
    return known | {
        "bleu_lost": (before, after),
        "changed_words": (changed, np.zeros_like(changed)),
    }


def interventions_section(rows: Sequence[Row]) -> Section:
    """Return the table of the losses; empty without rows."""
    if not rows:
        return Section(title="Interventions")
    columns = [Column("Group", is_numeric=False), Column("Intervention", is_numeric=False)]
    columns.append(Column("Runs"))
    for name, loss in _LOSSES.items():
        columns += [Column(loss.title, hint=loss.hint), Column("95% interval")]
        if f"{name}_p" in COLUMNS:
            columns.append(Column("p (Holm)", hint="corrected over all rows"))
    text = (
        "The trained models translate the test set again with other attention weights; nothing "
        "is trained. A model that loses nothing does not need its own weights for these "
        "sentences; one that loses much was trained to read them, which does not say that "
        "another model could not do without. Each run is compared with itself, so the intervals "
        "and p-values are about other seeds and other sentences; of a single run, about other "
        "sentences only. The weights of gold and other belong to the references, so nothing is "
        "translated with them. Heads count from 1 and have no order across seeds, so each run has "
        "a row of its own; drop_head:1 removes the whole context of a model with one head."
    )
    table = Table(
        caption="Other attention weights", columns=columns, rows=[_cells(row) for row in rows]
    )
    return Section(title="Interventions", paragraphs=[text], tables=[table])


def _cells(row: Row) -> list[Cell]:
    cells = [Cell(str(row["group"])), Cell(str(row["intervention"]))]
    cells.append(Cell(str(row["runs"]), float(row["runs"])))
    for name, loss in _LOSSES.items():
        value, low, high, p_value = (row.get(name + end) for end in ENDINGS)
        if value is None:
            cells += [Cell("-"), Cell("-")]
        else:
            cells.append(Cell(f"{value:{loss.form}}", float(value)))
            cells.append(Cell(f"{low:{loss.form}} to {high:{loss.form}}", float(low or 0)))
        if f"{name}_p" in COLUMNS:
            cells.append(
                Cell("-") if p_value is None else Cell(p_text(float(p_value)), float(p_value))
            )
    return cells
