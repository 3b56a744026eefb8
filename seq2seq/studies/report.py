"""The report of a study as a page: results in words and tables, charts, and translations."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TypedDict

import pandas as pd
from markupsafe import Markup
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from seq2seq.checks import counted
from seq2seq.studies.charts import COLORS, SHAPES, study_charts
from seq2seq.studies.runs import groups_of, outcome
from seq2seq.studies.sentences import ShownSentence, shown_sentences
from seq2seq.studies.tables import Study, study_tables, swept_values, texts
from seq2seq.visualization.page import render_page

_LONG = 14
"""Number of rows above which the page folds a table."""


class Page(TypedDict):
    """The content of a report; the template has the text that does not depend on the study."""

    title: str
    groups: list[str]
    """Label of each group."""
    summary: list[str]
    """The results in words."""
    tables: Mapping[str, Mapping[str, pd.DataFrame]]
    """Tables by section and caption."""
    charts: Mapping[str, Mapping[str, Figure]]
    """Charts by section and title."""
    sentences: list[ShownSentence]
    notes: list[str]
    """Lines that say what is not compared."""


def study_page(study: Study, *, name: str) -> Page:
    """Compose the report of a study with a name."""
    notes = list(study.notes)
    has_groups = len(study.groups) > 0
    charts = study_charts(study, notes) if has_groups else {}
    sentences = shown_sentences(study.finished, study.sources, notes)
    return {
        "title": f"Study {name}",
        "groups": list(study.groups.index),
        "summary": _summary(study),
        "tables": study_tables(study) if has_groups else {},
        "charts": charts,
        "sentences": sentences,
        "notes": list(not_compared(study._replace(notes=notes))),
    }


def _summary(study: Study) -> list[str]:
    """Return the results in words."""
    runs, groups = study.runs, study.groups
    if not len(groups):
        return ["No run has results."]
    num_failed = (runs["failure"] != "").sum()
    keys = list(swept_values(study))
    by = f", which differ in {', '.join(keys)}" if keys else ""
    failed = f"; {num_failed} without results" if num_failed else ""
    best = texts(groups, ["valid_bleu", "bleu"]).iloc[0]
    summary = [
        f"{counted(len(runs), 'run')} in {counted(len(groups), 'group')}{by}{failed}.",
        f"Best on the validation set: {groups.index[0]}, with {best['Validation BLEU']} BLEU there "
        f"and {best['BLEU']} on the test set.",
    ]
    at_end = {label: members["best_at_end"] for label, members in groups_of(study.finished).items()}
    labels = [f"{label} ({sum(of)} of {len(of)})" for label, of in at_end.items() if any(of)]
    if labels:
        summary.append(
            "Best at their last validation, so longer training may score higher: "
            f"{', '.join(labels)}."
        )
    return summary


_DIFFERENT = {
    "signature": "The scores have different signatures, so BLEU cannot be compared between them",
    "device": "The runs were trained on different devices, so their times cannot be compared",
}
"""The notes for columns whose values differ between the runs."""


def not_compared(study: Study) -> Iterator[str]:
    """Say which runs failed, which seeds are missing or repeated, and what is not compared."""
    runs, finished = study.runs, study.finished
    yield from (f"{outcome(run)}." for _, run in runs[runs["failure"] != ""].iterrows())
    seeds = sorted(set(runs["seed"]) - {""}, key=lambda seed: (len(seed), seed))
    of_groups = {label: set(members["seed"]) for label, members in groups_of(finished).items()}
    for label, known in of_groups.items():
        if absent := [seed for seed in seeds if seed not in known]:
            name = "seed" if len(absent) == 1 else "seeds"
            yield f"{label} has no results with {name} {', '.join(absent)}."
    for label, known in of_groups.items():
        if len(known) < study.groups.loc[label, "runs"]:
            yield (
                f"{label} has several runs with one seed; they count as different seeds, so "
                "its deviations, intervals and p-values may be too small."
            )
    test_sets = {tuple(lines) for lines in finished["references"] if lines}
    if len(test_sets) > 1:
        yield (
            f"The runs have {len(test_sets)} different test sets, and scores on different test "
            "sets cannot be compared."
        )
    for label, reason in study.groups["not_compared"].items():
        if reason:
            yield f"{label} is not compared with a baseline: {reason}."
    for column, text in _DIFFERENT.items():
        values = finished.loc[finished[column] != "", column].value_counts(sort=False)
        if len(values) > 1:
            pairs = [f"{each} ({counted(count, 'run')})" for each, count in values.items()]
            yield f"{text}: {'; '.join(pairs)}."
    yield from study.notes


def tables_text(page: Page, layout: str) -> str:
    """Return every table of a report in LaTeX, with the rules of booktabs, or in Markdown."""
    parts = []
    for caption, table in [item for found in page["tables"].values() for item in found.items()]:
        if layout == "latex":
            columns = "l" * table.index.nlevels + "r" * len(table.columns)
            rows = table.reset_index().to_latex(index=False, escape=True, column_format=columns)
            parts.append(f"% {caption}\n{rows}")
        else:
            rows = table_text(table, "pipe", lambda text: re.sub(r"[\\`*_<>|]", r"\\\g<0>", text))
            parts.append(f"{caption}\n\n{rows}\n")
    return "\n".join(parts)


def table_text(
    table: pd.DataFrame, layout: str, escape: Callable[[str], str] = lambda text: text
) -> str:
    """Return a table in a layout of `tabulate`."""
    aligned = ["left"] * table.index.nlevels + ["right"] * len(table.columns)
    options = {"tablefmt": layout, "disable_numparse": True, "colalign": aligned}
    flat = table.reset_index().astype(str).map(escape)
    return str(flat.to_markdown(index=False, **options))


def render_report(page: Page) -> str:
    """Return a report as HTML."""
    marks = [
        (COLORS[index % len(COLORS)], SHAPES[index % len(SHAPES)][1], name)
        for index, name in enumerate(page["groups"])
    ]
    charts = {
        section: {title: json.loads(chart.to_json()) for title, chart in found.items()}
        for section, found in page["charts"].items()
    }
    values = {"charts": charts, "marks": marks, "table": _table_html, "long": _LONG}
    values["plotly"] = Markup(get_plotlyjs())
    return render_page(Path(__file__).with_name("report.html"), {**page, **values})


def _table_html(table: pd.DataFrame) -> Markup:
    """Return a table, with the names of the index in the only row of its head."""
    text = table.to_html(index_names=False, border=0, sparsify=False)
    for name in table.index.names:
        text = text.replace("<th></th>", f'<th scope="col">{escape(str(name))}</th>', 1)
    return Markup(text)
