"""Figures drawn without a display: attention maps with token labels, and bars."""

# N heads, T target length, S source length

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from seq2seq.visualization.fonts import Fonts

# Matplotlib takes half a second to load, so the functions that draw import it.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, unless noted otherwise.
CELL = 0.24
FONT_SIZE = 9.0
"""Points."""
NARROW_LETTER, WIDE_LETTER = 0.65 * FONT_SIZE / 72, 1.05 * FONT_SIZE / 72
GAP = 0.12
CAPTION = 0.3
BAR = 0.36
MAX_SIDE = 60.0
"""Larger figures are scaled down to this side."""

GRID = "#dddddd"
MAX_LABEL = 20
"""Characters of a token label; longer ones end with an ellipsis."""
MAX_LABELS = 150
"""Labels of an axis; of more tokens only every second, third, ... is labelled."""
MAX_COLUMNS = 4
"""Panels in a row."""


def attention_figure(
    attention_weights: Tensor, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> "Figure":
    """Draw one panel for each head: source on top, target on the left, dark cells for high weights.

    A character that no installed font has is drawn as a box, with one warning.

    Args:
        attention_weights: (N, T, S), from 0 to 1.
        source_tokens: A label for each column.
        target_tokens: A label for each row.

    Raises:
        ValueError: There are no heads or no tokens.

    Example:
        >>> import torch
        >>> attention_weights = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])
        >>> figure = attention_figure(attention_weights, ["ein", "Hund"], ["a", "dog"])
        >>> len(figure.axes)
        1
    """
    num_heads, num_rows, num_columns = attention_weights.shape
    if attention_weights.numel() == 0:
        raise ValueError(
            f"attention of {num_heads} heads, {num_rows} target and {num_columns} source tokens "
            "has nothing to draw"
        )
    assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens)), (
        "one label for each row and column"
    )
    fonts = Fonts([*source_tokens, *target_tokens])
    source, target = (
        [fonts.clean(_shorten(token)) for token in tokens]
        for tokens in (source_tokens, target_tokens)
    )
    layout = _Layout.of(num_heads, source, target)
    figure = _figure(layout.scale * layout.width, layout.scale * layout.height)
    for head, panel in enumerate(attention_weights.float().tolist()):
        # The sizes are known, and a layout engine takes many times as long.
        axes = figure.add_axes(layout.place(head, num_columns, num_rows))
        axes.imshow(panel, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _label_tokens(axes, source, target)
        axes.tick_params(labelfontfamily=fonts.families, labelsize=layout.scale * FONT_SIZE)
        if num_heads > 1:
            axes.set_xlabel(f"head {head + 1}", fontsize=layout.scale * FONT_SIZE)
    return figure


def draw_bars(axes: "Axes", names: Sequence[str], values: Sequence[float]) -> None:
    """Draw one horizontal bar for each name, the first on top, with its value beside it.

    NaN gets a dash in place of a bar.
    """
    lengths = [0.0 if math.isnan(value) else value for value in values]
    labels = ["-" if math.isnan(value) else f"{value:.2f}" for value in values]
    bars = axes.barh(range(len(names)), lengths, height=0.7, color="#4477aa")
    axes.bar_label(bars, labels, padding=3, fontsize=FONT_SIZE)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)


class _Layout(NamedTuple):
    """Positions of the panels of a figure, in inches before scaling."""

    columns: int
    rows: int
    left: float
    """Width of the target labels of a panel."""
    top: float
    """Height of the source labels of a panel."""
    panel_width: float
    panel_height: float

    @classmethod
    def of(cls, num_heads: int, source: list[str], target: list[str]) -> "_Layout":
        """Return a layout with square cells and room for the longest label of each axis."""
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
        """Return left, bottom, width and height of the cells of a head, relative to the figure."""
        row, column = divmod(head, self.columns)
        width, height = CELL * num_columns, CELL * num_rows
        left = column * self.panel_width + self.left
        bottom = self.height - row * self.panel_height - self.top - height
        return left / self.width, bottom / self.height, width / self.width, height / self.height


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(figure)
    return figure


def _shorten(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "\u2026"


def _longest(labels: Iterable[str]) -> float:
    """Return an upper bound of the length of the longest label, in inches."""

    def letter(character: str) -> float:
        wide = character in "mwMW@%" or unicodedata.east_asian_width(character) in "WF"
        return WIDE_LETTER if wide or character.isupper() else NARROW_LETTER

    return max(sum(map(letter, label)) for label in labels)


def _label_tokens(axes: "Axes", source: list[str], target: list[str]) -> None:
    """Write the tokens along both axes, without interpreting formulas."""
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
