"""Charts of a report, drawn by Plotly Express with a color and a shape for each group."""

from collections.abc import Sequence
from html import escape

import pandas as pd
import plotly.express as px
from plotly.graph_objects import Figure

from seq2seq.evaluation.measures import MEASURES
from seq2seq.studies.comparison import have_same_tokens
from seq2seq.studies.probes import name_in_group
from seq2seq.studies.runs import RUN_MEASURES, groups_of, heads_of
from seq2seq.studies.tables import Study
from seq2seq.training.run_directory import RunDirectory

COLORS = (
    *("#1f6fd6", "#d1570a", "#12804a", "#c9372c", "#8a52d1"),
    *("#8a6100", "#0f7f8c", "#c2307c", "#65738a", "#5f7a00"),
)
"""Colors of the groups, with a contrast of at least 3 to 1 on light and dark pages."""
SHAPES = (
    ("circle", "\u25cf"),
    ("square", "\u25a0"),
    ("diamond", "\u25c6"),
    ("cross", "\u271a"),
    ("x", "\u2715"),
    ("triangle-up", "\u25b2"),
    ("triangle-down", "\u25bc"),
    ("triangle-left", "\u25c4"),
    ("triangle-right", "\u25ba"),
    ("star", "\u2605"),
    ("hexagon", "\u2b22"),
)
"""Plotly's names of the shapes, and characters that look the same; 110 groups differ in color or
shape."""
_NO_COLOR = "rgba(0,0,0,0)"
_BAND = {"fill": "toself", "hoverinfo": "skip", "line_width": 0, "mode": "lines"}


def _draw(
    kind: str, points: pd.DataFrame, x: str, y: str, labels: Sequence[str], **options: object
) -> Figure:
    """Draw a chart of points with a `group`; the page's style sets the colors of text and grid.

    Args:
        kind: A function of Plotly Express.
        points: The data; texts are escaped, because Plotly interprets some HTML.
        x: Column of the horizontal axis.
        y: Column of the vertical axis.
        labels: The labels of all groups, which choose colors and shapes.
        options: Further arguments of the function.
    """
    texts = points.select_dtypes(exclude="number").columns
    points = points.assign(**{name: points[name].map(escape) for name in texts})
    names = list(map(escape, labels))
    figure = getattr(px, kind)(
        points,
        x=x,
        y=y,
        color="group",
        symbol="group",
        category_orders={"group": names},
        color_discrete_sequence=COLORS,
        symbol_sequence=[shape for shape, _ in SHAPES],
        template="none",
        **options,
    )
    figure.update_layout(
        font={"family": "system-ui, sans-serif", "size": 13},
        hoverlabel={"bgcolor": "#ffffff", "font": {"color": "#16181d"}},
        margin={"t": 30, "r": 12, "b": 48, "l": 52},
        modebar={"bgcolor": _NO_COLOR},
        paper_bgcolor=_NO_COLOR,
        plot_bgcolor=_NO_COLOR,
        showlegend=False,
    )
    figure.update_xaxes(zeroline=False, automargin=True, title_standoff=8)
    figure.update_yaxes(zeroline=False, automargin=True, title_standoff=8)
    for trace in figure.data:
        trace.meta = names.index(trace.legendgroup.partition(",")[0])  # the page hides groups by it
    return figure


def study_charts(study: Study, notes: list[str]) -> dict[str, dict[str, Figure]]:
    """Return the charts of a study with groups by section and title; `notes` gets what is left
    out."""
    return {
        "Learning curves": learning_curves(study.finished, notes),
        "Attention": attention_charts(study.finished),
        "BLEU by source length": length_chart(study.lengths, list(study.groups.index)),
    }


def learning_curves(finished: pd.DataFrame, notes: list[str]) -> dict[str, Figure]:
    """Return a chart of each measure of the validations, by its title.

    Lines are means over the runs of a group, at the updates that all its runs have; bands reach
    from the lowest to the highest run.

    Args:
        finished: The runs.
        notes: Runs without curves, and groups that split the validation set into other tokens, add
            a line.
    """
    without = finished["validations"].map(len) == 0
    notes += [f"{name} has no learning curves." for name in finished.loc[without, "run"]]
    directories = [RunDirectory(path) for path in finished["path"]]
    are_comparable = have_same_tokens(
        each.read_statistics("valid") for each in directories if each.text("valid", "npz").is_file()
    )
    if not are_comparable:
        notes.append(
            "The groups split the validation set into different tokens: a word may be one token in "
            "one group and several in another. The titles of charts with values per token say so. "
            "Compare their lines only between groups with the same tokens; between all groups, "
            "compare the loss per character."
        )
    found = finished[["group", "validations"]].explode("validations").dropna()
    curves = pd.DataFrame(list(found["validations"])).assign(group=list(found["group"]))
    num_runs, labels = finished.groupby("group").size(), list(groups_of(finished))
    charts = {}
    for name, measure in MEASURES.items():
        if name not in curves:
            continue
        points = curves.groupby(["group", "update"], sort=False)[name]
        points = points.agg(["mean", "min", "max", "count"]).reset_index()
        points = points[points["count"] == points["group"].map(num_runs)].sort_values("update")
        unit = measure.title
        points = points.rename(columns={"update": "Updates", "mean": unit})
        figure = _draw("line", points, "Updates", unit, labels, markers=True)
        figure.update_layout(hovermode="x unified")
        figure.update_traces(hovertemplate="%{y:.4~g}", marker_size=6)
        for trace in figure.data:
            band = points[points["group"] == labels[trace.meta]]
            if num_runs[labels[trace.meta]] > 1:
                figure.add_scatter(
                    x=[*band["Updates"], *band["Updates"][::-1]],
                    y=[*band["max"], *band["min"][::-1]],
                    fillcolor=f"{trace.line.color}2e",
                    meta=trace.meta,
                    **_BAND,
                )
        title = f"{unit}, validation"
        if measure.is_per_token and not are_comparable:
            title += " (not comparable: other tokens)"
        charts[title] = figure
    return charts


def attention_charts(finished: pd.DataFrame) -> dict[str, Figure]:
    """Return a chart with a point for each run, and one with a point for each head."""
    runs, heads = finished.copy(), heads_of(finished)
    groups = groups_of(finished)
    runs["hint"] = [name_in_group(run, groups[run["group"]]) for _, run in runs.iterrows()]
    if len(heads):
        heads = heads.assign(hint=heads["run"] + ", head " + heads["head"].astype(str))
    charts = {}
    for what, points, x, y in (
        ("run", runs, "aer", "bleu"),
        ("head of each run", heads, "entropy", "aer" if "aer" in heads else "sharpness"),
    ):
        points = points.reindex(columns=["group", "hint", x, y]).dropna()
        if len(points):
            titles = {name: RUN_MEASURES[name].title for name in (x, y)}
            points = points.rename(columns=titles)
            figure = _draw("scatter", points, titles[x], titles[y], list(groups), hover_name="hint")
            figure.update_traces(marker_size=9)
            charts[f"{titles[x]} and {titles[y]}: a point for each {what}"] = figure
    return charts


def length_chart(lengths: pd.DataFrame, labels: Sequence[str]) -> dict[str, Figure]:
    """Return the chart of BLEU by source length, with standard deviations over the runs."""
    if not len(lengths):
        return {}
    x, y = f"Source {lengths['unit'].iloc[0]}", "BLEU"
    points = lengths.rename(columns={"source_length": x, "bleu": y})
    figure = _draw("line", points, x, y, labels, markers=True, error_y="bleu_deviation")
    figure.update_xaxes(type="category")
    figure.update_traces(hovertemplate="%{y:.4~g}", marker_size=6, error_y_thickness=1)
    return {"BLEU by source length": figure.update_layout(hovermode="x unified")}
