"""Charts of a report as figures of Plotly, with a color and a shape for each group."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

# Plotly takes long to load, so the functions that draw import it.
if TYPE_CHECKING:
    from plotly.graph_objects import Scatter

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
DASHES = ("solid", "dash", "dot")
"""Dashes for further groups, if there are more groups than colors."""
_NO_COLOR = "rgba(0,0,0,0)"
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "svg"},
}

Kind = Literal["lines", "bins", "points"]


class Series(NamedTuple):
    """The points of one group in a chart."""

    group: int
    """Index of the group, which chooses color and shape."""
    name: str
    x: Mapping[str, Sequence[float | str]]
    """Positions of the points on each x axis that a reader may choose, by the label of the axis."""
    y: Sequence[float | None]
    low: Sequence[float] = ()
    """Lower end of the band at each point; empty: no band."""
    high: Sequence[float] = ()
    deviations: Sequence[float] = ()
    """Length of the error bars of each point; empty: no bars."""
    hints: Sequence[str] = ()
    """Text for each point, shown beside its values."""


class Chart(TypedDict):
    """A chart as the page draws it."""

    title: str
    figure: Mapping[str, object]
    """Argument of `Plotly.newPlot`."""
    axes: Mapping[str, Sequence[object]]
    """Arguments of `Plotly.update` when the axis with this label is chosen."""


def draw_chart(title: str, y_label: str, kind: Kind, series: Sequence[Series]) -> Chart:
    """Draw lines with bands, bins of categories with error bars, or points.

    The page's style sets the colors of text and grid, which depend on the reader's color scheme.

    Args:
        title: Text above the chart.
        y_label: Label of the vertical axis.
        kind: Kind of the marks that are drawn.
        series: At least one; all have the same axes, and the first axis is drawn.
    """
    from plotly.graph_objects import Figure

    axes = list(series[0].x)
    # A box for all groups would show one position, but the groups' positions may differ.
    is_shared = {axis: axis == axes[0] and kind != "points" for axis in axes}
    modes = {axis: "x unified" if is_shared[axis] else "closest" for axis in axes}
    traces = {}
    for axis in axes:
        place = "" if is_shared[axis] else f"{axis} %{{x:.4~g}}, {y_label} "
        traces[axis] = [trace for each in series for trace in _traces(each, axis, kind, place)]
    common = {"zeroline": False, "automargin": True}
    figure = Figure(
        data=traces[axes[0]],
        layout={
            "template": "none",
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": "#16181d"}},
            "hovermode": modes[axes[0]],
            "margin": {"t": 30, "r": 12, "b": 48, "l": 52},
            "modebar": {"bgcolor": _NO_COLOR},
            "paper_bgcolor": _NO_COLOR,
            "plot_bgcolor": _NO_COLOR,
            "showlegend": False,
            "xaxis": common | {"title": {"text": axes[0], "standoff": 8}},
            "yaxis": common | {"title": {"text": y_label, "standoff": 8}},
        },
    )
    if kind == "bins":
        figure.update_xaxes(type="category")
    updates = {
        axis: [
            {name: [trace[name] for trace in traces[axis]] for name in ("x", "hovertemplate")},
            {"xaxis.title.text": axis, "xaxis.autorange": True, "hovermode": modes[axis]},
        ]
        for axis in axes
    }
    return {
        "title": title,
        "figure": figure.to_plotly_json() | {"config": _CONFIG},
        "axes": updates if len(axes) > 1 else {},
    }


def _traces(series: Series, axis: str, kind: Kind, place: str) -> list["Scatter"]:
    """Return the band of a group and its points or line; `place` is shown before the values."""
    from plotly.graph_objects import Scatter

    color = COLORS[series.group % len(COLORS)]
    x = series.x[axis]
    points = Scatter(
        x=x,
        y=series.y,
        error_y={"array": series.deviations, "thickness": 1} if series.deviations else None,
        hovertemplate=place + "%{y:.4~g}" + (" (%{text})" if series.hints else ""),
        line={"dash": DASHES[series.group // len(COLORS) % len(DASHES)]},
        marker={
            "color": color,
            "size": 9 if kind == "points" else 6,
            "symbol": SHAPES[series.group % len(SHAPES)][0],
        },
        meta=series.group,
        mode="markers" if kind == "points" else "lines+markers",
        name=escape(series.name),  # Plotly interprets some HTML
        text=list(map(escape, series.hints)),
    )
    if not series.high:
        return [points]
    band = Scatter(
        x=[*x, *reversed(x)],
        y=[*series.high, *reversed(series.low)],
        fill="toself",
        fillcolor=f"{color}2e",
        hoverinfo="skip",
        line={"width": 0},
        meta=series.group,
        mode="lines",
    )
    return [band, points]
