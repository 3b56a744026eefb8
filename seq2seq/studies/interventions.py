"""Losses of a study's models with other attention weights, tested over seeds and sentences."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq.analysis.interventions import DropHead, Intervention, count_changed_words
from seq2seq.analysis.run import Run
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import ratio
from seq2seq.evaluation.metrics import Array, corpus_bleu
from seq2seq.evaluation.significance import (
    SENTENCES_ONLY,
    GroupComparison,
    Score,
    compare_groups,
    correct,
    p_text,
)
from seq2seq.studies.comparison import STAR
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.studies.tables import INTERVAL_HINT
from seq2seq.visualization.page import Cell, Column, Section, Table

logger = logging.getLogger(__name__)

ENDINGS = ("", "_low", "_high", "_p")


class _Loss(NamedTuple):
    """A number that says what a change of the weights costs."""

    title: str
    form: str
    hint: str
    score: Score
    present: Callable[[float], float] = float
    """Function that turns the difference of the scores into the number."""


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
        lambda nats: math.exp(nats) if nats < 700 else math.inf,
    ),
    "changed_words": _Loss(
        "Changed words", ".3f", "share of words, of both translations, that differ", ratio
    ),
}
COLUMNS = ["group", "intervention", "runs", *(name + end for name in _LOSSES for end in ENDINGS)]
COLUMNS.remove("changed_words_p")  # no word changes by chance, so there is no p-value
COLUMNS.append("p_covers")

Row = dict[str, float | str]


def measure_losses(
    groups: Sequence[Group],
    interventions: Sequence[Intervention],
    notes: list[str],
) -> list[Row]:
    """Translate the test set of each run with each intervention, and test what it loses.

    Each run is paired with itself, unchanged. The p-values and the intervals of a group have
    Holm's correction over its interventions. An intervention that changes nothing, such as equal
    weights for `uniform`, is no comparison and has no p-value.

    Args:
        groups: The groups.
        interventions: The changes; one that occurs twice is tested once.
        notes: A run that cannot be changed adds a line, and is left out. There is a warning if an
            intervention changes no run at all.

    Returns:
        A row for each group and intervention, and for each run if it changes one of several heads,
        with the `COLUMNS`, as far as they are known.
    """
    rows: list[Row] = []
    reasons: dict[str, str] = {}
    interventions = list({str(each): each for each in interventions}.values())
    for group in groups:
        if len({run.test_set for run in group.runs} - {None}) > 1:
            notes.append(f"{group.label} has no interventions: its runs have different test sets.")
            continue
        tested: dict[str, list[tuple[Row, GroupComparison]]] = {name: [] for name in _LOSSES}
        for intervention, (label, runs) in (
            (each, row) for each in interventions for row in _rows(group, each)
        ):
            found, failures = [], {}
            for run in runs:
                try:
                    found.append(_intervene(run, intervention))
                except USER_ERRORS as error:
                    failures[run.name] = describe_error(error)
            if not found and len(set(failures.values())) == 1:  # all for the same reason
                failures = {label: next(iter(failures.values()))}
            for name, reason in failures.items():
                notes.append(f"{name} is left out: {reason}.")
                reasons.setdefault(str(intervention), notes[-1])
            row: Row = {"group": label, "intervention": str(intervention), "runs": len(found)}
            rows.append(row)
            for name in found[0] if found else ():
                before, after = map(np.stack, zip(*(pairs[name] for pairs in found), strict=True))
                compared = compare_groups(before, after, score=_LOSSES[name].score, paired=True)
                row["p_covers"] = compared.covers
                if name + "_p" in COLUMNS and not np.allclose(before, after):
                    tested[name].append((row, compared))
                else:
                    _fill(row, name, compared)
        for name, of_rows in tested.items():
            for (row, _), compared in zip(of_rows, correct([c for _, c in of_rows]), strict=True):
                _fill(row, name, compared)
                row[name + "_p"] = compared.p_corrected
    for name, reason in reasons.items():
        if not any(row["runs"] for row in rows if row["intervention"] == name):
            logger.warning("%s changes no run; for example, %s", name, reason.removesuffix("."))
    return rows


def _rows(group: Group, intervention: Intervention) -> list[tuple[str, Sequence[StudyRun]]]:
    """Return the label and the runs of each row of an intervention.

    Heads have no order, so each seed has a row of its own.
    """
    if isinstance(intervention, DropHead) and any(len(run.heads) > 1 for run in group.runs):
        return [(group.name_of(run), [run]) for run in group.runs]
    return [(group.label, group.runs)]


def _fill(row: Row, name: str, compared: GroupComparison) -> None:
    """Add a loss and its interval to a row."""
    interval = compared.interval
    if name == "changed_words":
        interval = share_interval(compared)
    numbers = map(_LOSSES[name].present, (compared.effect, *interval))
    row |= {name + end: value for end, value in zip(ENDINGS, numbers, strict=False)}


def share_interval(compared: GroupComparison) -> tuple[float, float]:
    """Return the interval of a share, computed for its logit so that it lies between 0 and 1."""
    share, (low, high) = compared.effect, compared.interval
    if not 0 < share < 1:
        return share, share
    half = (high - low) / 2 / (share * (1 - share))  # for the logit, by the delta method
    middle = math.log(share / (1 - share))
    # The logistic function of both ends, written with tanh, which does not overflow.
    return (1 + math.tanh((middle - half) / 2)) / 2, (1 + math.tanh((middle + half) / 2)) / 2


def _intervene(run: StudyRun, intervention: Intervention) -> dict[str, tuple[Array, Array]]:
    """Return two statistics (S, K) for each of the `_LOSSES`, which is the difference of their
    scores."""
    found = Run(run.directory.path).intervene(intervention)
    before, after = (
        {n: rows[:, 0] for n, rows in each.items()} for each in (run.statistics, found.statistics)
    )
    lines = [each.text for each in found.translations]
    changed = np.array(list(map(count_changed_words, run.translations, lines)), dtype=np.float64)
    return {
        "bleu_lost": (before["bleu"], after["bleu"]),
        "perplexity_factor": (after["loss"], before["loss"]),
        "changed_words": (changed, np.zeros_like(changed)),
    }


def interventions_section(rows: Sequence[Row]) -> Section:
    """Return a short table of the losses and one with all figures; empty without rows."""
    if not rows:
        return Section(title="Interventions")
    columns = [Column("Group", is_numeric=False), Column("Intervention", is_numeric=False)]
    columns.append(Column("Runs"))
    for name, loss in _LOSSES.items():
        columns.append(Column(loss.title, hint=loss.hint))
        if f"{name}_p" in COLUMNS:
            columns.append(Column("Interval", hint=INTERVAL_HINT))
            columns.append(Column("p (Holm)", hint="corrected over the interventions of the group"))
        else:
            columns.append(Column("95% interval"))
    text = (
        "The trained models translate the test set again with other attention weights; nothing "
        "is trained. A model that loses nothing does not need its own weights for these "
        "sentences. A model that loses much needs its own weights, but another model might do "
        "without them. Each run is compared with itself, so the intervals "
        "and p-values are about other seeds and other sentences. An intervention that changes "
        "nothing has no p. Heads do not correspond between seeds, so each run has a row of its "
        "own; drop_head:1 removes the whole context of a model with one head."
    )
    stars = [STAR] if any(row.get("p_covers") == SENTENCES_ONLY for row in rows) else []
    caption = "; ".join(["Other attention weights: all figures", *stars])
    cells = [_cells(row) for row in rows]
    table = Table(caption=caption, columns=columns, rows=cells, is_folded=True)
    return Section(title="Interventions", paragraphs=[text], tables=[_short_table(rows), table])


def _short_table(rows: Sequence[Row]) -> Table:
    """Return a row for each group and a column for each intervention."""
    names = list(dict.fromkeys(str(row["intervention"]) for row in rows))
    labels = list(dict.fromkeys(str(row["group"]) for row in rows))
    found = {(row["group"], row["intervention"]): row for row in rows}
    return Table(
        caption="BLEU lost with other weights",
        columns=[Column("Group", is_numeric=False), *map(Column, names)],
        rows=[
            [Cell(label), *(_short_cell(found.get((label, name), {})) for name in names)]
            for label in labels
        ],
    )


def _short_cell(row: Row) -> Cell:
    if "bleu_lost" not in row:
        return Cell("-")
    value, low, high = (float(row["bleu_lost" + end]) for end in ENDINGS[:3])
    return Cell(f"{value:.2f} ({low:.2f} to {high:.2f})", value)


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
            text = "-" if p_value is None else p_text(float(p_value), str(row["p_covers"]))
            cells.append(Cell(text, None if p_value is None else float(p_value)))
    return cells
