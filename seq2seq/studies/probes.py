"""Probe trained models: what other attention weights cost, and what attention agrees with."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import (
    MEASURES,
    Sentences,
    head_scores,
    measure,
    ratio,
    total_scores,
)
from seq2seq.evaluation.metrics import Array, corpus_bleu
from seq2seq.evaluation.significance import Score, compare_groups, correct
from seq2seq.studies.interventions import DropHead, Intervention, count_changed_words
from seq2seq.studies.run import Run
from seq2seq.studies.runs import groups_of

logger = logging.getLogger(__name__)

Sides = dict[str, tuple[Array, Array]]
"""Statistics (S, K) of a run after and before a change, for each loss."""
Effect = tuple[float, float, float]
"""A number and the ends of its interval."""


def _as_factor(effect: Effect) -> Effect:
    """Return a difference of losses in nats as a factor of the perplexity."""
    value, low, high = (math.exp(n) if n < 700 else math.inf for n in effect)
    return value, low, high


def _as_share(effect: Effect) -> Effect:
    """Return a share; the interval is computed for its logit, so that it lies between 0 and 1."""
    share, low, high = effect
    if not 0 < share < 1:
        return share, share, share
    half = (high - low) / 2 / (share * (1 - share))  # of the logit, by the delta method
    middle = math.log(share / (1 - share))
    # The logistic function of both ends, written with tanh, which does not overflow.
    low, high = ((1 + math.tanh((middle + end) / 2)) / 2 for end in (-half, half))
    return share, low, high


class Loss(NamedTuple):
    """A number that says what a change of the weights costs."""

    title: str
    form: str
    score: Score
    convert: Callable[[Effect], Effect] = lambda effect: effect
    """Function that converts the difference of the scores into the number."""
    is_tested: bool = True
    """Whether the number may differ from 0 by chance, and so has a p-value."""


LOSSES = {
    "bleu_lost": Loss("BLEU lost", ".2f", corpus_bleu),
    "perplexity_factor": Loss("Perplexity \xd7", ".2f", ratio, _as_factor),
    "changed_words": Loss("Changed words", ".3f", ratio, _as_share, is_tested=False),
}
LOSS_COLUMNS = [
    *("group", "intervention", "runs"),
    *(name + end for name in LOSSES for end in ("", "_low", "_high", "_p")),
    "p_covers",
]
LOSS_COLUMNS.remove("changed_words_p")


def measure_losses(
    finished: pd.DataFrame, interventions: Sequence[Intervention], notes: list[str]
) -> pd.DataFrame:
    """Translate the test set of each run with each intervention, and test the losses.

    Each run is paired with itself, unchanged. The p-values and the intervals of a group have
    Holm's correction over its interventions. An intervention that changes nothing, such as
    `uniform` if weights are already equal, is no comparison and has no p-value.

    Args:
        finished: The runs.
        interventions: The changes; duplicates are tested once.
        notes: A run that cannot be changed adds a line, and is left out.

    Returns:
        A row for each group and intervention, with the `LOSS_COLUMNS`; of `drop_head`, a row for
        each run, because heads have no order.
    """
    rows: list[dict[str, object]] = []
    interventions = list({str(each): each for each in interventions}.values())
    for group, runs in groups_of(finished).items():
        if len({*runs["test_set"]} - {""}) > 1:
            notes.append(f"{group} has no interventions: its runs have different test sets.")
            continue
        found, of_rows = [], []
        for intervention in interventions:
            for label, changed in _rows(group, runs, intervention):
                sides, failures = _intervene_all(changed, intervention, label)
                row = {"group": label, "intervention": str(intervention), "runs": len(sides)}
                found.append(row)
                of_rows.append(sides)
                notes += [f"{name} is left out: {reason}." for name, reason in failures.items()]
        _compare(found, of_rows)
        rows += found
    return pd.DataFrame(rows, columns=LOSS_COLUMNS)


def name_in_group(run: pd.Series, runs: pd.DataFrame) -> str:
    """Return the name of a run, for readers who know its group."""
    is_known = run["seed"] and list(runs["seed"]).count(run["seed"]) == 1
    return f"{run['group']}, seed {run['seed']}" if is_known else str(run["run"])


def _rows(
    group: str, runs: pd.DataFrame, intervention: Intervention
) -> list[tuple[str, pd.DataFrame]]:
    """Return the label and the runs of each row of an intervention."""
    has_heads = any(len(head_scores(statistics)) > 1 for statistics in runs["statistics"])
    if isinstance(intervention, DropHead) and has_heads:
        return [(name_in_group(run, runs), runs.loc[[index]]) for index, run in runs.iterrows()]
    return [(group, runs)]


def _intervene_all(
    runs: pd.DataFrame, intervention: Intervention, label: str
) -> tuple[list[Sides], dict[str, str]]:
    """Return the statistics of the runs, and failures by the name of the run.

    If all runs fail for the same reason, there is one failure, under the label.
    """
    sides, failures = [], {}
    for _, run in runs.iterrows():
        try:
            sides.append(_intervene(run, intervention))
        except USER_ERRORS as error:
            failures[str(run["run"])] = describe_error(error)
    if not sides and len(set(failures.values())) == 1:
        failures = {label: next(iter(failures.values()))}
    return sides, failures


def _intervene(run: pd.Series, intervention: Intervention) -> Sides:
    """Return two statistics for each of the `LOSSES`; the loss is the difference of their
    scores."""
    found = Run(run["path"]).intervene(intervention)
    before, after = (
        {name: rows[:, 0] for name, rows in statistics.items()}
        for statistics in (run["statistics"], found.statistics)
    )
    lines = [translation.text for translation in found.translations]
    changed = np.array(list(map(count_changed_words, run["translations"], lines)), dtype=np.float64)
    return {
        "bleu_lost": (before["bleu"], after["bleu"]),
        "perplexity_factor": (after["loss"][:, :2], before["loss"][:, :2]),
        "changed_words": (changed, np.zeros_like(changed)),
    }


def _compare(rows: Sequence[dict[str, object]], of_rows: Sequence[Sequence[Sides]]) -> None:
    """Add the losses of a group's rows, with Holm's correction over those that change something."""
    for name, loss in LOSSES.items():
        compared, tested = {}, []
        for i, of_runs in enumerate(of_rows):
            if of_runs:
                after, before = map(np.stack, zip(*(sides[name] for sides in of_runs), strict=True))
                compared[i] = compare_groups(after, before, score=loss.score, paired=True)
                if loss.is_tested and not np.allclose(after, before):
                    tested.append(i)
        corrected = correct([compared[i] for i in tested])
        compared |= zip(tested, corrected, strict=True)
        for i, found in compared.items():
            value, low, high = loss.convert((found.effect, *found.interval))
            rows[i] |= {name: value, f"{name}_low": low, f"{name}_high": high}
            rows[i]["p_covers"] = found.covers
            if i in tested:
                rows[i][f"{name}_p"] = found.p_corrected


TAUS = [name for name, each in MEASURES.items() if each.needs == "taus"]


def measure_attributions(runs: pd.DataFrame) -> None:
    """Add the correlations of attention, erasure and gradient on the test set to each run.

    A correlation without any target word, for example without attention, is left out. A run that
    cannot be measured is left out with a warning.
    """
    for index, run in runs[runs["failure"] == ""].iterrows():
        try:
            found = Run(run["path"]).attributions()
        except USER_ERRORS as error:
            logger.warning("%s has no attributions: %s", run["run"], describe_error(error))
            continue
        taus = {name: [getattr(each, name) for each in found] for name in TAUS}
        measured = measure(Sentences(taus=taus), TAUS)
        known = {name: rows for name, rows in measured.items() if rows[..., 1].any()}
        runs.at[index, "statistics"] = run["statistics"] | known
        for name, score in total_scores(known).items():
            runs.loc[index, name] = score
