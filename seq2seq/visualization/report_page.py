"""HTML page of a study: tables, charts and translations in one file that needs no server."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import BinaryIO, NamedTuple

from seq2seq.visualization.page import content_hash, fill_template, json_block


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    value: float | None = None
    """The number that a numeric column is sorted by; None sorts last."""


class Column(NamedTuple):
    """A column of a table."""

    label: str
    is_numeric: bool = True
    hint: str = ""
    """Meaning of the numbers, shown to a pointer that rests on the label."""


@dataclass(kw_only=True, slots=True)
class Table:
    """A table that a click on a column head sorts; the first column heads the rows."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    is_folded: bool = False


@dataclass(kw_only=True, slots=True)
class Series:
    """The points of one group in a chart."""

    group: int
    """Index of the group, which chooses the colour."""
    x: Mapping[str, Sequence[float | str]]
    """Positions of the points for each choice of the axis."""
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    """Lower end of the band or bar of each point; empty: none."""
    high: Sequence[float | None] = ()
    hints: Sequence[str] = ()
    """A text for each point, shown beside its values."""


@dataclass(kw_only=True, slots=True)
class Chart:
    """A chart with a colour for each group."""

    title: str
    x_label: str
    """Empty: the axis is chosen on the page and called like the choice."""
    y_label: str
    kind: str
    """"lines" with bands, "bins" of categories with error bars, or "points"."""
    series: Sequence[Series] = ()


@dataclass(kw_only=True, slots=True)
class Section:
    """A part of the page; the page has those parts that contain something."""

    title: str
    paragraphs: Sequence[str] = ()
    items: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    axes: Mapping[str, str] = field(default_factory=dict)
    """Labels of the axes to choose from, for charts without an `x_label`."""
    tables: Sequence[Table] = ()
    has_sentences: bool = False
    """Whether the sentences of the report are shown here."""


class ShownTranslation(NamedTuple):
    """A sentence's translation by one group."""

    group: int
    text: str
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    weights: Sequence[Sequence[Sequence[int]]]
    """Attention in percent: [head][target token][source token]; empty without attention."""


class ShownSentence(NamedTuple):
    """A sentence with the translations of all groups."""

    source: str
    reference: str
    translations: Sequence[ShownTranslation]


@dataclass(kw_only=True, slots=True)
class StudyPage:
    """The content of the page."""

    title: str
    groups: Sequence[str]
    """Label of each group."""
    sections: Sequence[Section]
    sentences: Sequence[ShownSentence]

    def write(self, output: BinaryIO) -> None:
        """Write the page.

        Any text is safe: it is escaped, or stored in JSON without `<`. The page's content security
        policy allows its own scripts only and no requests.
        """
        plotly = plotly_script()
        slots = {
            "title": escape(self.title),
            "links": _links(self.sections),
            "body": "\n".join(_section(each) for each in self.sections),
            "data": self._data(),
            "plotly": plotly,
            "plotly_hash": content_hash(plotly),
        }
        output.write(fill_template(Path(__file__), slots).encode("utf-8", "replace"))

    def _data(self) -> str:
        charts = [asdict(chart) for section in self.sections for chart in section.charts]
        sentences = [
            {**each._asdict(), "translations": [one._asdict() for one in each.translations]}
            for each in self.sentences
        ]
        return json_block({"groups": list(self.groups), "charts": charts, "sentences": sentences})


def plotly_script() -> str:
    """Return the source of plotly.js from the package plotly; empty if it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return ""
    script: str = get_plotlyjs()
    return script


def _links(sections: Sequence[Section]) -> str:
    return " ".join(f'<a href="#{_key(each)}">{escape(each.title)}</a>' for each in sections[1:])


def _key(section: Section) -> str:
    return "".join(c if c.isalnum() else "-" for c in section.title.lower())


def _section(section: Section) -> str:
    key = _key(section)
    parts = [f'<section id="{key}" aria-labelledby="{key}-title">']
    parts.append(f'<h2 id="{key}-title">{escape(section.title)}</h2>')
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    if section.items:
        items = "".join(f"<li>{escape(text)}</li>" for text in section.items)
        parts.append(f"<ul>{items}</ul>")
    if section.axes:
        parts.append(_axis_choice(section.axes))
    if section.charts:
        boxes = "".join(_chart(each) for each in section.charts)
        parts.append(f'<div class="charts">{boxes}</div>')
    parts += [_table(table) for table in section.tables]
    if section.has_sentences:
        parts.append('<div id="sentences"></div>')
    return "\n".join([*parts, "</section>"])


def _chart(chart: Chart) -> str:
    title = escape(chart.title)
    return f'<figure><figcaption>{title}</figcaption><div class="chart"></div></figure>'


def _axis_choice(axes: Mapping[str, str]) -> str:
    choices = "".join(
        f'<label><input type="radio" name="axis" value="{escape(key)}"'
        f"{'' if number else ' checked'}>{escape(label)}</label>"
        for number, (key, label) in enumerate(axes.items())
    )
    return f'<fieldset id="axis"><legend>Against</legend>{choices}</fieldset>'


def _table(table: Table) -> str:
    caption = escape(table.caption)
    heads = "".join(
        f'<th scope="col" class="{"number" if column.is_numeric else "text"}">'
        f'<button type="button" title="{escape(column.hint)}">{escape(column.label)}</button></th>'
        for column in table.columns
    )
    rows = "\n".join(f"<tr>{_row(row, table.columns)}</tr>" for row in table.rows)
    content = (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )
    if table.is_folded:
        return f"<details><summary>{caption}</summary>{content}</details>"
    return content


def _row(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    cells = []
    for index, (cell, column) in enumerate(zip(row, columns, strict=True)):
        name = "td" if index else 'th scope="row"'
        value = "" if cell.value is None else f' data-value="{cell.value:.9g}"'
        kind = ' class="number"' if column.is_numeric else ""
        cells.append(f"<{name}{kind}{value}>{escape(cell.text)}</{name.split()[0]}>")
    return "".join(cells)
