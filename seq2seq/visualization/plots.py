"""Pictures: attention maps with their tokens, and bar charts; drawn without a display."""

# N heads, T target length, S source length

import logging
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

# Matplotlib takes half a second to load, so the functions that draw import it: a run or a
# translation that draws nothing, or not yet, does not wait for it.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

# Inches, unless said otherwise.
CELL = 0.24
FONT_SIZE = 9.0
"""points"""
NARROW_LETTER, WIDE_LETTER = 0.65 * FONT_SIZE / 72, 1.05 * FONT_SIZE / 72
GAP = 0.12
CAPTION = 0.3
BAR = 0.36
MAX_SIDE = 60.0
"""a larger picture is scaled down"""

GRID = "#dddddd"
MAX_LABEL = 20
"""characters of a token; longer ones end in an ellipsis"""
MAX_LABELS = 150
"""of an axis; of more tokens some go without"""
MAX_COLUMNS = 4
"""panels side by side"""
MISSING = "\u25a1"
"""stands for a character that no font has"""
OWN_FONT = "DejaVu Sans"
"""comes with matplotlib"""
FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Hiragino Sans",
    "PingFang SC",
    "Arial Unicode MS",
    "Unifont",
)
"""used, where they are installed, for what matplotlib's own font lacks"""


def attention_figure(
    weights: Tensor, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> "Figure":
    """Draw attention as one panel per head: source on top, target at the left, dark is much.

    A character that no installed font has is drawn as a box, with one warning.

    Args:
        weights: (N, T, S).
        source_tokens: a label for each column.
        target_tokens: a label for each row.

    Raises:
        ValueError: there is nothing to draw.
    """
    num_heads, num_rows, num_columns = weights.shape
    if weights.numel() == 0:
        raise ValueError(
            f"attention of {num_heads} heads, {num_rows} target and {num_columns} source tokens "
            "has nothing to draw"
        )
    assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens)), "a label a line"
    fonts = _Fonts([*source_tokens, *target_tokens])
    source, target = (
        [fonts.clean(_shorten(token)) for token in tokens]
        for tokens in (source_tokens, target_tokens)
    )
    layout = _Layout.of(num_heads, source, target)
    figure = _figure(layout.scale * layout.width, layout.scale * layout.height)
    for head, panel in enumerate(weights.float().tolist()):
        # Placed by hand: the sizes are known, and a layout engine takes many times as long.
        axes = figure.add_axes(layout.place(head, num_columns, num_rows))
        axes.imshow(panel, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _label_tokens(axes, source, target)
        axes.tick_params(labelfontfamily=fonts.families, labelsize=layout.scale * FONT_SIZE)
        if num_heads > 1:
            axes.set_xlabel(f"head {head + 1}", fontsize=layout.scale * FONT_SIZE)
    return figure


def bar_chart(names: Sequence[str], values: Sequence[float], *, title: str, unit: str) -> "Figure":
    """Draw one horizontal bar a name, the first on top, with its value beside it.

    Args:
        names: labels, in the order to be shown.
        values: one for each name; NaN gets no bar and a dash.
        title: stands above the bars.
        unit: what the values are.

    Raises:
        ValueError: there is nothing to draw.
    """
    if not names:
        raise ValueError("a bar chart needs at least one bar")
    fonts = _Fonts([*names, title, unit])
    figure = _figure(6.4, BAR * len(names) + 1.2)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    draw_bars(axes, list(map(fonts.clean, names)), values)
    axes.set_title(fonts.clean(title), parse_math=False, fontfamily=fonts.families)
    axes.set_xlabel(fonts.clean(unit), parse_math=False, fontfamily=fonts.families)
    axes.tick_params(labelfontfamily=fonts.families)
    return figure


def draw_bars(axes: "Axes", names: Sequence[str], values: Sequence[float]) -> None:
    """Fill a panel with one horizontal bar a name, as `bar_chart` does."""
    lengths = [0.0 if math.isnan(value) else value for value in values]
    labels = ["-" if math.isnan(value) else f"{value:.2f}" for value in values]
    bars = axes.barh(range(len(names)), lengths, height=0.7, color="#4477aa")
    axes.bar_label(bars, labels, padding=3, fontsize=FONT_SIZE)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)


class _Layout(NamedTuple):
    """Where the panels of a figure stand, in inches before it is scaled."""

    columns: int
    rows: int
    left: float
    """of a panel, for the target's labels"""
    top: float
    """of a panel, for the source's labels"""
    panel_width: float
    panel_height: float

    @classmethod
    def of(cls, num_heads: int, source: list[str], target: list[str]) -> "_Layout":
        """Make cells square and leave room for the longest label of each axis."""
        columns = min(num_heads, MAX_COLUMNS)
        left, top = _longest(target) + GAP, _longest(source) + GAP
        return cls(
            columns=columns,
            rows=math.ceil(num_heads / columns),
            left=left,
            top=top,
            panel_width=left + CELL * len(source) + GAP,
            panel_height=top + CELL * len(target) + (CAPTION if num_heads > 1 else GAP),
        )

    @property
    def width(self) -> float:
        return self.columns * self.panel_width

    @property
    def height(self) -> float:
        return self.rows * self.panel_height

    @property
    def scale(self) -> float:
        return min(1.0, MAX_SIDE / self.width, MAX_SIDE / self.height)

    def place(
        self, head: int, num_columns: int, num_rows: int
    ) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of a head's cells as shares of the figure."""
        row, column = divmod(head, self.columns)
        width, height = CELL * num_columns, CELL * num_rows
        left = column * self.panel_width + self.left
        bottom = self.height - row * self.panel_height - self.top - height
        return left / self.width, bottom / self.height, width / self.width, height / self.height


class _Fonts:
    """The fonts for some labels, and how the labels show in them."""

    def __init__(self, labels: Iterable[str]) -> None:
        needed = {character for label in labels for character in label if character.isprintable()}
        self.families = [OWN_FONT]
        missing = needed - _characters(OWN_FONT)
        for family in FALLBACK_FONTS if missing else ():
            if found := missing & _characters(family):
                self.families.append(family)
                missing -= found
        self._missing = missing
        if missing:
            logger.warning(
                "no installed font has %s; shown as %s (a Noto Sans CJK font would have most)",
                " ".join(f"U+{ord(character):04X}" for character in sorted(missing)),
                MISSING,
            )

    def clean(self, label: str) -> str:
        """Return a label as it can be shown."""
        return "".join(
            MISSING if character in self._missing or not character.isprintable() else character
            for character in label
        )


def _characters(family: str) -> set[str]:
    """Return what a font has; nothing where it is not installed."""
    from matplotlib import font_manager

    if family not in font_manager.get_font_names():
        return set()
    path = font_manager.findfont(family, fallback_to_default=False)
    return {chr(code) for code in font_manager.get_font(path).get_charmap()}


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(figure)
    return figure


def _shorten(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "\u2026"


def _longest(labels: Iterable[str]) -> float:
    """Return how long the longest label is at most, in inches."""

    def letter(character: str) -> float:
        wide = character in "mwMW@%" or unicodedata.east_asian_width(character) in "WF"
        return WIDE_LETTER if wide or character.isupper() else NARROW_LETTER

    return max(sum(map(letter, label)) for label in labels)


def _label_tokens(axes: "Axes", source: list[str], target: list[str]) -> None:
    """Write the tokens, none of which is a formula, along both axes."""
    every_column = math.ceil(len(source) / MAX_LABELS)
    every_row = math.ceil(len(target) / MAX_LABELS)
    axes.xaxis.tick_top()
    axes.set_xticks(
        range(0, len(source), every_column),
        source[::every_column],
        rotation=90,
        parse_math=False,
    )
    axes.set_yticks(range(0, len(target), every_row), target[::every_row], parse_math=False)
    axes.tick_params(length=0)
    columns = [column - 0.5 for column in range(1, len(source))]
    rows = [row - 0.5 for row in range(1, len(target))]
    axes.vlines(columns, -0.5, len(target) - 0.5, colors=GRID, linewidth=0.5)
    axes.hlines(rows, -0.5, len(source) - 0.5, colors=GRID, linewidth=0.5)
