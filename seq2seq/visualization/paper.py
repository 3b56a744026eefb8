"""Tables and figures of a report for a paper: LaTeX with PDF, or Markdown with SVG."""

import logging
import re
from collections.abc import Callable, Sequence
from enum import Enum
from html import unescape
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tabulate import tabulate

from seq2seq.files.atomic import whole_file
from seq2seq.visualization.figures import Chart
from seq2seq.visualization.page import Section, Table
from seq2seq.visualization.plots import choose_fonts

COLUMN_WIDTH, HEIGHT = 3.3, 2.6
"""Size of a figure in inches."""
MARKERS, DASHES = "osDPX^v<>*h", ("-", "--", ":", "-.")
"""Groups differ in marker, dash and lightness, so that figures can be read in grayscale."""
_STYLE = {
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.labelspacing": 0.2,
    "lines.linewidth": 1,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,  # publishers reject Type 3 fonts
    "svg.hashsalt": "seq2seq",  # drawing a figure again gives the same file
    "text.parse_math": False,
}


class PaperFormat(Enum):
    """The format of the files for a paper."""

    latex = "latex"
    """Tables with the rules of booktabs, and figures in PDF."""
    markdown = "markdown"
    """Tables in Markdown, and figures in SVG."""


def write_paper(sections: Sequence[Section], directory: Path, chosen: PaperFormat) -> None:
    """Write each table and each figure of the sections to a file that is named by its title."""
    render, table_ending, figure_ending = _FILES[chosen]
    directory.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for table in section.tables:
            with whole_file(directory / f"{_file_name(table.caption)}.{table_ending}") as file:
                file.write(render(table).encode("utf-8", "replace"))
        for chart in section.charts:
            with whole_file(directory / f"{_file_name(chart['title'])}.{figure_ending}") as file:
                save_figure(chart, file, figure_ending)


def table_text(table: Table, layout: str, escape: Callable[[str], str] = str) -> str:
    """Return the columns and rows of a table in a layout of `tabulate`."""
    return tabulate(
        [[escape(cell.text) for cell in row] for row in table.rows],
        headers=[escape(column.label) for column in table.columns],
        tablefmt=layout,
        disable_numparse=True,
        colalign=["right" if column.is_numeric else "left" for column in table.columns],
    )


def latex_table(table: Table) -> str:
    """Return the `tabular` of a table, after its caption in a comment."""
    rows = table_text(table, "latex_booktabs")  # it also escapes the text
    rows = re.sub(r"(?<=[ (])-(?=\d)", "$-$", rows)
    # After the end of a row, LaTeX would read a bracket or an asterisk as an argument.
    rows = re.sub(r"(?m)^( *)([\[*])", r"\1{\2}", rows)
    return f"% {table.caption}\n{rows}\n"


def markdown_table(table: Table) -> str:
    """Return a table after its caption."""

    def escape(text: str) -> str:
        return re.sub(r"[\\`*_~<>|\[\]]", r"\\\g<0>", text)

    return f"{escape(table.caption)}\n\n{table_text(table, 'pipe', escape)}\n"


def save_figure(chart: Chart, file: BinaryIO, ending: str) -> None:
    """Draw a chart without its title, in the width of a column."""
    # Both modules take long to load.
    from matplotlib import colormaps, style
    from matplotlib.figure import Figure
    from plotly.graph_objects import Figure as PlotlyFigure

    for package in ("fontTools", "matplotlib"):  # they log each font and each axis
        logging.getLogger(package).setLevel(logging.WARNING)
    drawn = PlotlyFigure(chart["figure"], skip_invalid=True)
    last = max(trace.meta for trace in drawn.data)
    names = [unescape(trace.name or "") for trace in drawn.data]
    families, boxes = choose_fonts(names)
    lines = {}
    with style.context(_STYLE | {"font.family": families}):
        figure = Figure(figsize=(COLUMN_WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        axes.set(xlabel=drawn.layout.xaxis.title.text, ylabel=drawn.layout.yaxis.title.text)
        axes.spines[["top", "right"]].set_visible(False)
        for trace, name in zip(drawn.data, names, strict=True):
            color = colormaps["viridis"](0.85 * trace.meta / max(last, 1))
            if trace.fill:  # the band around a line
                axes.fill(trace.x, trace.y, color=color, alpha=0.15, linewidth=0)
                continue
            is_line = "lines" in trace.mode
            lines[name.translate(boxes)], *_ = axes.errorbar(
                trace.x,
                np.array(trace.y, dtype=float),  # None becomes NaN, which is not drawn
                trace.error_y.array,
                capsize=2,
                color=color,
                linestyle=DASHES[trace.meta % len(DASHES)] if is_line else "none",
                marker=MARKERS[trace.meta % len(MARKERS)],
                markevery=max(len(trace.x) // 8, 1) if is_line else 1,
            )
        if len(lines) > 1:
            columns = max(48 // (6 + max(map(len, lines))), 1)
            figure.legend(lines.values(), lines, loc="outside upper center", ncols=columns)
        date = "CreationDate" if ending == "pdf" else "Date"
        figure.savefig(file, format=ending, metadata={date: None})


def _file_name(title: str) -> str:
    """Return the words of a title up to a colon, a semicolon or a parenthesis."""
    return "-".join(re.findall(r"\w+", re.split("[:;(]", title)[0].lower()))


_FILES: dict[PaperFormat, tuple[Callable[[Table], str], str, str]] = {
    PaperFormat.latex: (latex_table, "tex", "pdf"),
    PaperFormat.markdown: (markdown_table, "md", "svg"),
}
"""Function that renders a table, and the file extensions of tables and figures."""
