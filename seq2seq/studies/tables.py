"""The tables of a report: texts in columns, with an index of the texts that label a row."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.metrics import Array
from seq2seq.evaluation.significance import LEVEL, SENTENCES_ONLY, p_text
from seq2seq.studies.agreement import between_groups, places_of
from seq2seq.studies.runs import RUN_MEASURES, SEED

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


def interval(row: Mapping[str, float], name: str, form: str) -> str:
    """Write the interval of a column."""
    return f"{row[f'{name}_low']:{form}} to {row[f'{name}_high']:{form}}"


def with_interval(row: Mapping[str, float], name: str, form: str) -> str:
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


def difference_texts(rows: pd.DataFrame, form: str) -> pd.DataFrame:
    """Write differences, their intervals and their p-values."""
    found = [
        (
            f"{row['difference']:{form}}",
            interval(row, "difference", form),
            p_text(row["p_holm"], row["covers"]),
        )
        for _, row in rows.iterrows()
    ]
    return pd.DataFrame(found, index=rows.index, columns=["Difference", "Interval", "p (Holm)"])


def star(covers: Iterable[object]) -> str:
    """Return the meaning of a p-value with a star, if there is one, for the end of a caption."""
    return f"; * one run on a side: {SENTENCES_ONLY}" if SENTENCES_ONLY in set(covers) else ""


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
        bleu = difference_texts(study.differences.loc["bleu"], "+.2f").reindex(groups.index)
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
    differences = study.differences
    if not len(differences):
        return {}
    uniform = study.losses[study.losses["intervention"] == "uniform"].set_index("group")
    rows = {}
    for label, group in study.groups.iterrows():
        bleu, matters, covers = "-" if group["not_compared"] else "baseline", "-", "-"
        if label in uniform.index and pd.notna((lost := uniform.loc[label])["bleu_lost"]):
            is_same = pd.isna(lost["bleu_lost_p"])
            matters = "nothing changes" if is_same else answer(lost["bleu_lost_p"])
            matters += f": {with_interval(lost, 'bleu_lost', '.2f')}"
            covers = lost["p_covers"]
        if ("bleu", label) in differences.index:
            found = differences.loc[("bleu", label)]
            bleu = f"{answer(found['p_holm'])}: {with_interval(found, 'difference', '+.2f')}"
            covers = found["covers"]
        rows[label] = {
            "Different BLEU?": bleu,
            "Different attention?": _attention_answer(group),
            "Do its weights matter?": matters,
            "Aligned at update": _moment(study.finished, label, "aligned_at"),
            "Valid for": covers,
        }
    rest = [
        difference_texts(differences.loc[[name]], f"+{MEASURES[name].form}").rename(
            index={name: MEASURES[name].title}, level="measure"
        )
        for name in differences.index.unique("measure")
        if name != "bleu"
    ]
    every = pd.concat(rest) if rest else pd.DataFrame(index=differences.index[:0])
    every = (
        every.swaplevel()
        .reindex(study.groups.index, level="group")
        .rename_axis(["Group", "Measure"])
    )
    return {
        "Each group beside its baseline": _by_group(rows),
        "Differences from the baseline: every measure": every,
    }


def _by_group(rows: Mapping[object, Mapping[str, str]]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Group")


def _attention_answer(group: pd.Series) -> str:
    """Write the divergence from the baseline and between the group's own seeds."""
    if pd.isna(group["agreement_between"]):
        return "-"
    found = f"{group['agreement_between']:.3f}, own seeds {group['agreement_within']:.3f}"
    if pd.isna(group["agreement_p"]):
        return f"needs {group['agreement_seeds_needed']:.0f} seeds: {found}"
    return f"{answer(group['agreement_p'])} (p {p_text(group['agreement_p'])}): {found}"


def moments(study: Study) -> dict[str, pd.DataFrame]:
    """Return the moments at which attention and BLEU rise; empty without AER."""
    names = [name for name in ("aligned_at", "half_bleu_at") if study.groups[name].notna().any()]
    if "aligned_at" not in names:
        return {}
    rows = {
        label: {RUN_MEASURES[name].title: _moment(study.finished, label, name) for name in names}
        for label in study.groups.index
    }
    table = _by_group(rows).join(texts(study.groups, ("aer", "valid_bleu")))
    return {"Updates: from the earliest to the latest run, and scores at the end": table}


def _moment(finished: pd.DataFrame, label: object, name: str) -> str:
    """Write the first and last update of the runs of a group; 0 is before the first validation."""
    values = finished.loc[finished["group"] == label, name].dropna()
    ends = dict.fromkeys([values.min(), values.max()] if len(values) else [])
    shown = [number(end, ".0f") if end else "before the first validation" for end in ends]
    return " to ".join(shown) or "-"


def attention_tables(study: Study, heads: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of attention on the test set; empty without attention."""
    if not len(heads) and study.groups[_OF_ATTENTION].isna().all(axis=None):
        return {}
    caption = "Attention of each group: all heads, mean \xb1 standard deviation over the runs"
    tables = {caption: texts(study.groups, [*_OF_ATTENTION, "bleu"]).rename_axis("Group")}
    has_maps = study.finished.groupby("group")["maps"].agg(lambda maps: any(map(len, maps)))
    places = {label: of for label, of in places_of(study.finished).items() if has_maps[label]}
    for caption, distances in (
        (
            "Jensen-Shannon divergence of the attention of two runs: bits from 0 (equal)",
            study.divergence,
        ),
        ("AER of a run's links against another run's: from 0 (equal)", study.links),
    ):
        if not np.isnan(distances).all():
            means = between_groups(distances, places).map(lambda mean: number(mean, ".3f"))
            tables[f"{caption} to 1; the diagonal compares the seeds of a group"] = means
    if len(heads):
        labels = heads[["group", "run", "head"]].set_axis(["Group", "Run", "Head"], axis=1)
        table = texts(heads, _OF_ATTENTION, form=".3f").set_index(pd.MultiIndex.from_frame(labels))
        tables["Attention of each head"] = table
    return tables
