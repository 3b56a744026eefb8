"""The tables of a report: texts in columns, with an index of the texts that label a row."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from seq2seq.checks import counted
from seq2seq.evaluation.measures import MEASURES, ratio
from seq2seq.evaluation.metrics import Array
from seq2seq.evaluation.significance import LEVEL, SENTENCES_ONLY, p_text
from seq2seq.studies.agreement import between_groups, places_of
from seq2seq.studies.comparison import compare_with_zero, result
from seq2seq.studies.probes import LOSSES, TAUS
from seq2seq.studies.runs import RUN_MEASURES, SEED, groups_of, heads_of

_COSTS = ("parameters", "minutes", "tokens_per_second", "best_update")
_FIRST = ("valid_bleu", "bleu")
"""Measures to the left of the comparison with the baseline."""
_LATER = [each for each in MEASURES.values() if each.name != "bleu" and not each.is_detail]
_ON_PAGE = (*_FIRST, *(each.name for each in _LATER), *_COSTS)
IN_TERMINAL = (
    *_FIRST,
    *(each.name for each in _LATER if each.needs in ("translations", "links")),
    *_COSTS[:-1],
)
_OF_ATTENTION = [name for name, each in MEASURES.items() if each.has_heads]
_MACHINE = "data.cache_dir"
"""Key that describes the machine, not the study."""


class Study(NamedTuple):
    """The tables of a study, and what a comparison of its groups finds."""

    runs: pd.DataFrame
    """All runs; see `read_runs`."""
    finished: pd.DataFrame
    """The runs with results, by group and seed."""
    groups: pd.DataFrame
    """A row for each group: numbers of runs, measures, baseline, and agreement of attention."""
    differences: pd.DataFrame
    """Differences from the baseline by measure and group; see `compare`."""
    divergence: Array
    """Divergence of the attention of every two finished runs, in bits."""
    links: Array
    """AER of the links of every two finished runs."""
    losses: pd.DataFrame
    """What each group loses with other attention weights; see `measure_losses`."""
    lengths: pd.DataFrame
    """BLEU of each group in each range of source lengths."""
    sources: list[str]
    """The test sentences of the runs `with_first_test_set`; empty if they are not known."""
    notes: list[str]
    """Lines that say what is left out."""


def number(value: float, form: str, deviation: float = math.nan) -> str:
    """Write a number, with commas and its standard deviation if there is one.

    Example:
        >>> number(1234.5, ".1f"), number(30.2, ".2f", 1.5), number(math.nan, ".2f")
        ('1,234.5', '30.20 \\xb1 1.50', '-')
    """
    if pd.isna(value) or math.isinf(value):  # an infinite number of updates
        return "-" if pd.isna(value) else "never"
    return f"{value:,{form}}" + ("" if pd.isna(deviation) else f" \xb1 {deviation:,{form}}")


def interval(row: Mapping[str, object], name: str, form: str) -> str:
    """Write the interval of a column."""
    return f"{row[f'{name}_low']:{form}} to {row[f'{name}_high']:{form}}"


def with_interval(row: Mapping[str, object], name: str, form: str) -> str:
    """Write a number with its interval in brackets; a dash if it is unknown."""
    return "-" if pd.isna(row[name]) else f"{row[name]:{form}} ({interval(row, name, form)})"


def answer(p_value: float) -> str:
    """Say whether a difference is significant."""
    return "yes" if p_value < LEVEL else "not shown"


def texts(frame: pd.DataFrame, names: Iterable[str], *, form: str = "") -> pd.DataFrame:
    """Write the `RUN_MEASURES` that some row has, in columns with their titles, with standard
    deviations if the frame has them. The AER of the diagonal follows the AER."""
    found = {}
    for name in [each for given in names for each in _BESIDE.get(given, (given,))]:
        if name in frame and frame[name].notna().any():
            measure = RUN_MEASURES[name]
            has_spread = f"{name}_deviation" in frame and name not in _NO_SPREAD
            deviations = frame[f"{name}_deviation"] if has_spread else [math.nan] * len(frame)
            found[measure.title] = [
                number(mean, form or measure.form, deviation)
                for mean, deviation in zip(frame[name], deviations, strict=True)
            ]
    return pd.DataFrame(found, index=frame.index)


_BESIDE = {"aer": ("aer", "aer_of_diagonal")}
_NO_SPREAD = ("aer_of_diagonal", "parameters")
"""Measures that do not depend on the seed."""


def difference_texts(differences: pd.DataFrame) -> pd.DataFrame:
    """Write the differences of `compare`, their intervals and their p-values."""
    found = []
    for (name, _), row in differences.iterrows():
        form = f"+{MEASURES[name].form}"
        texts = f"{row['difference']:{form}}", interval(row, "difference", form)
        found.append((*texts, p_text(row["p_holm"], row["covers"])))
    columns = ["Difference", "Interval", "p (Holm)"]
    return pd.DataFrame(found, index=differences.index, columns=columns)


def star(covers: Iterable[object]) -> str:
    """Return the meaning of a p-value with a star, if there is one, for the end of a caption."""
    return f"; * one run on a side: {SENTENCES_ONLY}" if SENTENCES_ONLY in set(covers) else ""


def study_tables(study: Study) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the tables of a study with groups by section and caption."""
    lengths = "BLEU by source length"
    tables = {
        "Results": result_tables(study),
        "Answers": answers(study),
        "Learning curves": {},
        "When it learns to look": moments(study),
        "Attention": attention_tables(study),
        "Interventions": loss_tables(study.losses),
        "Is attention an explanation?": tau_table(study.finished),
        lengths: {lengths: length_table(study.lengths)},
    }
    return {
        section: {caption: table for caption, table in found.items() if len(table)}
        for section, found in tables.items()
    }


def result_tables(study: Study) -> dict[str, pd.DataFrame]:
    """Return the tables of groups, runs, settings and measures."""
    runs, measures = study.runs, RUN_MEASURES.values()
    labels = runs[["run"]].rename(columns={"run": "Run"})
    labels = labels.join(pd.DataFrame(list(runs["swept"])))
    caption = "Groups: mean \xb1 standard deviation over the runs"
    return {
        caption + star(study.differences["covers"]): group_table(study, _ON_PAGE),
        f"All runs ({len(runs)})": texts(runs, RUN_MEASURES).set_index(
            pd.MultiIndex.from_frame(labels)
        ),
        "Settings that all runs share": _settings(study.finished),
        "What the measures are": pd.DataFrame(
            {"Meaning": [each.hint for each in measures]},
            index=pd.Index([each.title for each in measures], name="Measure"),
        ),
    }


def swept_values(study: Study) -> pd.DataFrame:
    """Return the swept values of each group, without the seed."""
    swept = study.finished.groupby("group", sort=False)["swept"].first()
    frame = pd.DataFrame(list(swept), index=swept.index)
    return frame.drop(columns=SEED, errors="ignore")


def group_table(study: Study, shown: Sequence[str]) -> pd.DataFrame:
    """Return a row for each group: swept values, runs, measures and the comparison in BLEU.

    Args:
        study: A study with groups.
        shown: The measures to show, if a group has them.
    """
    groups = study.groups
    parts = [groups["runs"].map(str).rename("Runs"), texts(groups, _FIRST)]
    if "bleu" in study.differences.index:
        bleu = difference_texts(study.differences).loc["bleu"].reindex(groups.index)
        empty = groups["not_compared"].map(lambda why: "not compared" if why else "baseline")
        parts.append(bleu.assign(Difference=bleu["Difference"].fillna(empty)).fillna("-"))
    parts.append(texts(groups, [name for name in shown if name not in _FIRST]))
    table = pd.concat(parts, axis=1)
    swept = swept_values(study).replace("", "-")
    return table.set_index([swept[key] for key in swept]) if len(swept.columns) else table


def _settings(finished: pd.DataFrame) -> pd.DataFrame:
    """Return the settings that are equal in all runs with results; no rows if a run has none."""
    configs = pd.DataFrame(list(finished["config"]), dtype=object).drop(
        columns=_MACHINE, errors="ignore"
    )
    shared = configs.loc[:, (configs.nunique(dropna=False) == 1) & configs.notna().all()].iloc[0]
    for name, column in (("signature of BLEU", "signature"), ("device", "device")):
        known = [each for each in finished[column].unique() if each]
        if len(shared) and len(known) == 1:
            shared[name] = known[0]
    return shared.rename_axis("Key").to_frame("Value")


def answers(study: Study) -> dict[str, pd.DataFrame]:
    """Return the results of each group beside its baseline; empty without a comparison."""
    differences, losses = study.differences, study.losses
    if not len(differences):
        return {}
    bleu = differences[differences.index.get_level_values("measure") == "bleu"]
    uniform = losses[losses["intervention"] == "uniform"].set_index("group")
    found = study.groups.drop(columns=["baseline", "runs"])
    found = found.join(bleu.droplevel("measure")).join(uniform)
    table = pd.DataFrame(
        {
            "Different BLEU?": found.apply(_bleu_answer, axis=1),
            "Different attention?": found.apply(_attention_answer, axis=1),
            "Do its weights matter?": found.apply(_weights_answer, axis=1),
            "Aligned at update": _moments(study.finished, "aligned_at"),
            "Valid for": found.apply(_scope, axis=1),
        }
    )
    every = difference_texts(differences.drop(index=bleu.index)).swaplevel()
    every = every.rename({name: each.title for name, each in MEASURES.items()}, level="measure")
    every = every.reindex(study.groups.index, level="group")
    return {
        "Each group beside its baseline": table.rename_axis("Group"),
        "Differences from the baseline: every measure": every.rename_axis(["Group", "Measure"]),
    }


def _bleu_answer(group: pd.Series) -> str:
    """Write the difference from the BLEU of the baseline."""
    if pd.isna(group["difference"]):
        return "-" if group["not_compared"] else "baseline"
    return f"{answer(group['p_holm'])}: {with_interval(group, 'difference', '+.2f')}"


def _attention_answer(group: pd.Series) -> str:
    """Write the divergence from the baseline and between the group's own seeds."""
    if pd.isna(group["agreement_between"]):
        return "-"
    found = f"{group['agreement_between']:.3f}, own seeds {group['agreement_within']:.3f}"
    if pd.isna(group["agreement_p"]):
        return f"needs {group['agreement_seeds_needed']:.0f} seeds: {found}"
    return f"{answer(group['agreement_p'])} (p {p_text(group['agreement_p'])}): {found}"


def _weights_answer(group: pd.Series) -> str:
    """Write the BLEU that uniform weights lose."""
    if pd.isna(group["bleu_lost"]):
        return "-"
    is_same = pd.isna(group["bleu_lost_p"])
    matters = "nothing changes" if is_same else answer(group["bleu_lost_p"])
    return f"{matters}: {with_interval(group, 'bleu_lost', '.2f')}"


def _scope(group: pd.Series) -> str:
    """Write what the comparison in BLEU covers, or the loss if there is no comparison."""
    return next(iter(group[["covers", "p_covers"]].dropna()), "-")


def moments(study: Study) -> dict[str, pd.DataFrame]:
    """Return the moments at which attention and BLEU rise; empty without AER."""
    names = [name for name in ("aligned_at", "half_bleu_at") if study.groups[name].notna().any()]
    if "aligned_at" not in names:
        return {}
    found = {RUN_MEASURES[name].title: _moments(study.finished, name) for name in names}
    table = pd.DataFrame(found).join(texts(study.groups, ("aer", "valid_bleu")))
    caption = "Updates: from the earliest to the latest run, and scores at the end"
    return {caption: table.rename_axis("Group")}


def _moments(finished: pd.DataFrame, name: str) -> pd.Series:
    """Write the first and last update of the runs of each group; 0 is before the first
    validation."""

    def text(updates: pd.Series) -> str:
        ends = dict.fromkeys(updates.dropna().agg(["min", "max"]).dropna())
        shown = [number(end, ".0f") if end else "before the first validation" for end in ends]
        return " to ".join(shown) or "-"

    return finished.groupby("group", sort=False)[name].agg(text)


def attention_tables(study: Study) -> dict[str, pd.DataFrame]:
    """Return the tables of attention on the test set; empty without attention."""
    heads = heads_of(study.finished)
    if not len(heads) and study.groups[_OF_ATTENTION].isna().all(axis=None):
        return {}
    caption = "Attention of each group: all heads, mean \xb1 standard deviation over the runs"
    tables = {caption: texts(study.groups, [*_OF_ATTENTION, "bleu"]).rename_axis("Group")}
    places = places_of(study.finished)
    distances = {
        "Jensen-Shannon divergence of the attention of two runs: bits": study.divergence,
        "AER of a run's links against another run's:": study.links,
    }
    for what, of_runs in distances.items():
        means = between_groups(of_runs, places).dropna(how="all").dropna(how="all", axis=1)
        caption = f"{what} from 0 (equal) to 1; the diagonal compares the seeds of a group"
        tables[caption] = means.map(number, form=".3f")
    if len(heads):
        labels = heads[["group", "run", "head"]].set_axis(["Group", "Run", "Head"], axis=1)
        table = texts(heads, _OF_ATTENTION, form=".3f").set_index(pd.MultiIndex.from_frame(labels))
        tables["Attention of each head"] = table
    return tables


def loss_tables(losses: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return a short table of the losses, and one with all figures; none without losses."""
    if not len(losses):
        return {}
    texts = losses[["group", "intervention", "runs"]].rename(columns=str.capitalize)
    for name, loss in LOSSES.items():
        texts[loss.title] = losses.apply(with_interval, axis=1, args=(name, loss.form))
        if loss.is_tested:
            p_values = map(p_text, losses[f"{name}_p"], losses["p_covers"])
            texts[f"p (Holm), {loss.title}"] = list(p_values)
    keys = ["Group", "Intervention"]
    labels, names = (texts[key].unique() for key in keys)
    table = texts.set_index(keys)
    short = table["BLEU lost"].unstack(fill_value="-").loc[labels, names]
    return {
        "BLEU lost with other weights": short.rename_axis(columns=None),
        f"Other attention weights: all figures{star(losses['p_covers'])}": table,
    }


def tau_table(finished: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the table of the correlations with their intervals; none if no run was measured."""
    if finished[TAUS].isna().all(axis=None):
        return {}
    rows = {}
    for label, runs in groups_of(finished).items():
        rows[label] = {"Runs": str(len(runs))}
        for name in TAUS:
            text = "-"
            taus = [each[name][:, 0] for each in runs["statistics"] if name in each]
            if len({len(each) for each in taus}) == 1:  # else unknown, or test sets differ
                found = compare_with_zero(np.stack(taus), ratio)
                text = with_interval(result(found), "difference", MEASURES[name].form)
            rows[label][f"{MEASURES[name].title} (95% interval)"] = text
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("Group")
    return {"Rank correlations": table}


def length_table(lengths: pd.DataFrame) -> pd.DataFrame:
    """Return the BLEU of each group in each range, with its interval."""
    rows: dict[str, dict[str, str]] = {}
    for _, row in lengths.iterrows():
        title = f"{row['source_length']} ({counted(row['sentences'], 'sentence')})"
        text = with_interval(row, "bleu", ".2f")
        rows.setdefault(row["group"], {})[title] = text
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Group")
