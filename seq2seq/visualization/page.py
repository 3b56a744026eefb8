"""HTML pages that need no server: attention to point at, and the report of a study."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:  # a service with exported models needs no torch
    from torch import Tensor

ATTENTION_VIEW = Path(__file__).with_name("attention")
"""The view of attention that several pages share: `.html`, `.css` and `.js`."""
TRANSLATIONS = Path(__file__).with_name("translations")
"""Shared by the pages that translate, after the view of attention: `.css` and `.js`."""
HYPOTHESES = '<fieldset id="hypotheses" aria-label="Translations, best first"></fieldset>'
"""The text of the target on these pages."""
FULL = 1000
"""A weight of 1 on the page; weights are rounded to thousandths."""
_SENTENCES = "\0"
"""Marks the place of the sentences in the page."""
_TEXT = '<p id="{side}-text" dir="auto" lang=""></p>'


class AttentionPage:
    """A single HTML file that needs no server, written sentence by sentence.

    Any text is safe: it is stored in blocks of JSON without `<`, and the page's content security
    policy allows its own script only and no requests. Browsers show a lone surrogate as U+FFFD.

    Example:
        >>> import io, torch
        >>> output = io.BytesIO()
        >>> page = AttentionPage(output)
        >>> page.add(
        ...     source="Hund",
        ...     target="dog",
        ...     source_tokens=["\u2581Hund", "</s>"],
        ...     target_tokens=["\u2581dog", "</s>"],
        ...     attention_weights=torch.eye(2).unsqueeze(0),
        ...     note="",
        ... )
        >>> page.close()
        >>> output.getvalue().startswith(b"<!DOCTYPE html>")
        True
    """

    def __init__(self, output: BinaryIO) -> None:
        """Write the beginning of the page to `output`, which stays open after `close`."""
        self._output = output
        texts = {f"{side}_text": _TEXT.format(side=side) for side in ("source", "target")}
        slots = {**texts, "sentences": _SENTENCES}
        page = fill_template(Path(__file__), slots, parts=[ATTENTION_VIEW])
        head, self._tail = page.encode().split(f"{_SENTENCES}\n".encode())
        self._output.write(head)

    def add(
        self,
        *,
        source: str,
        target: str,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        attention_weights: "Tensor",
        note: str,
    ) -> None:
        """Write a sentence and its translation.

        Args:
            source: Text of the sentence.
            target: Text of the translation.
            source_tokens: A label for each column; the first token of a word begins with U+2581.
            target_tokens: A label for each row, likewise.
            attention_weights: (N, T, S), from 0 to 1.
            note: Text beside the sentence; may be empty.

        Raises:
            ValueError: There are no heads.
        """
        num_heads, num_rows, num_columns = attention_weights.shape
        if num_heads == 0:
            raise ValueError("attention without heads has no weights to show on a page")
        assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens))
        self._write("text", {"source": source, "target": target, "note": note})
        attention = {
            "source_tokens": list(source_tokens),
            "target_tokens": list(target_tokens),
            "weights": (FULL * attention_weights.double()).round().int().tolist(),
        }
        self._write("attention", attention)

    def close(self) -> None:
        """Write the end of the page, without which it shows nothing."""
        self._output.write(self._tail)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Write a block of data."""
        data = json_block(content)
        block = f'<script type="application/json" class="{name}">{data}</script>\n'
        self._output.write(block.encode("ascii"))


def fill_template(module: Path, slots: Mapping[str, str], *, parts: Sequence[Path] = ()) -> str:
    """Return the HTML beside a module, with its style, its script and the contents of its slots.

    Args:
        module: The file of the module.
        slots: The content of each `{{slot}}`; a content that contains `{{` stays as it is.
        parts: Files without suffix. The HTML of a part stands at the slot of its name, and its
            style and script come before those of the page.
    """
    pieces = (*parts, module)
    style, script = (
        "".join(_read(piece.with_suffix(suffix)) for piece in pieces) for suffix in (".css", ".js")
    )
    page = _read(module.with_suffix(".html"))
    for part in parts:
        page = page.replace(f"{{{{{part.name}}}}}", _read(part.with_suffix(".html")))
    hashes = {"style_hash": content_hash(style), "script_hash": content_hash(script)}
    content = {**slots, **hashes, "style": style, "script": script}
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: content[slot[1]], page)


def _read(path: Path) -> str:
    """Return the text of a file; a part of a page may lack one of its three."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def json_block(content: Mapping[str, object]) -> str:
    """Return data as ASCII JSON without `<`, so no text can end its block in a page."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def content_hash(text: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


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
    has_maps: bool = False
    """Whether the maps over the time of training are shown here."""


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
    numbers: Mapping[str, float]
    """What the sentences can be ordered by: the first rises, the others fall."""


class RunMaps(NamedTuple):
    """The attention maps of a run at some of its validations."""

    group: int
    name: str
    updates: Sequence[int]
    scores: Sequence[str]
    """The scores of each validation in words."""
    maps: Sequence[Sequence[Sequence[Sequence[int]]]]
    """In percent: [validation][pair][target token][source token]; a large map is empty."""

    def thinned(self, step: int) -> "RunMaps":
        """Return every `step`-th validation, and the last one."""
        last = len(self.updates) - 1
        kept = range(last % step, last + 1, step)
        return self._replace(
            updates=[self.updates[i] for i in kept],
            scores=[self.scores[i] for i in kept],
            maps=[self.maps[i] for i in kept],
        )


class MapsOverTime(NamedTuple):
    """The maps of the same pairs in several runs."""

    pairs: Sequence[Mapping[str, object]]
    """Token labels of each pair: `source` and `target`."""
    runs: Sequence[RunMaps]


@dataclass(kw_only=True, slots=True)
class StudyPage:
    """The content of the page."""

    title: str
    groups: Sequence[str]
    """Label of each group."""
    sections: Sequence[Section]
    sentences: Sequence[ShownSentence]
    maps: MapsOverTime | None = None

    def write(self, output: BinaryIO) -> None:
        """Write the page.

        Any text is safe: it is escaped, or stored in JSON without `<`. The page's content security
        policy allows its own scripts only and no requests.
        """
        plotly = plotly_script()
        slots = {
            "title": escape(self.title),
            "links": " ".join(
                f'<a href="#{_key(each)}">{escape(each.title)}</a>' for each in self.sections[1:]
            ),
            "body": "\n".join(_section(each) for each in self.sections),
            "data": self._data(),
            "plotly": plotly,
            "plotly_hash": content_hash(plotly),
        }
        output.write(
            fill_template(Path(__file__).with_name("report_page"), slots).encode("utf-8", "replace")
        )

    def _data(self) -> str:
        charts = [asdict(chart) for section in self.sections for chart in section.charts]
        sentences = [
            {**each._asdict(), "translations": [one._asdict() for one in each.translations]}
            for each in self.sentences
        ]
        maps = self.maps and {
            "pairs": self.maps.pairs,
            "runs": [each._asdict() for each in self.maps.runs],
        }
        found = {"charts": charts, "sentences": sentences, "maps": maps}
        return json_block({"groups": list(self.groups), **found})


def plotly_script() -> str:
    """Return the source of plotly.js from the package plotly; empty if it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return ""
    script: str = get_plotlyjs()
    return script


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
    if section.has_maps:
        parts.append('<div id="maps"></div>')
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
