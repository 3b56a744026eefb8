"""Figures drawn without a display, with labels in any script: attention maps, and bars."""

import functools
import logging
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from seq2seq.evaluation.measures import MEASURES
from seq2seq.special_tokens import SPACE_LABEL

# Matplotlib takes half a second to load, so the functions that draw import it.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

# Sizes are in inches, unless noted otherwise.
CELL = 0.24
FONT_SIZE = 9.0
"""Size of text in points."""
NARROW_LETTER, WIDE_LETTER = 0.65 * FONT_SIZE / 72, 1.05 * FONT_SIZE / 72
GAP = 0.12
LINE = 0.16
"""Height of a line of the title."""
AXIS_TITLE = 0.25
BAR = 0.36
HEAD_WIDTH = 2.4
"""Width of a panel of bars."""
TITLES_AND_AXIS = 1.0
MAX_SIDE = 60.0
"""Maximum side length; larger figures are scaled down to it."""

GRID = "#dddddd"
MAX_LABEL = 20
"""Maximum number of characters in a token label; longer labels end with an ellipsis."""
MAX_LABELS = 150
"""Maximum number of labels on an axis; beyond that, every nth token is labeled."""
MAX_COLUMNS = 4
"""Maximum number of attention maps in a row."""
MAX_MEASURES = 3
"""Maximum number of measures in a row."""


def attention_figure(
    attention_weights: Tensor,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    title: str = "",
) -> "Figure":
    """Draw one panel for each head: source on top, target on the left, dark cells for high weights.

    The sign for the beginning of a word becomes a space. A character that no installed font has is
    drawn as a box, with one warning.

    Args:
        attention_weights: (N, T, S), from 0 to 1.
        source_tokens: A label for each column.
        target_tokens: A label for each row.
        title: Text above the panels, such as the sentences.

    Raises:
        ValueError: The labels are those of another sentence.

    Example:
        >>> import torch
        >>> attention_weights = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])
        >>> figure = attention_figure(attention_weights, ["ein", "Hund"], ["a", "dog"])
        >>> len(figure.axes)
        1
    """
    num_heads, num_rows, num_columns = attention_weights.shape
    if (num_rows, num_columns) != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"attention of {num_rows} target and {num_columns} source tokens needs a label for "
            f"each, not {len(target_tokens)} and {len(source_tokens)}; give the labels of one "
            "sentence"
        )
    families, boxes = choose_fonts([*source_tokens, *target_tokens, *title.splitlines()])
    boxes[ord(SPACE_LABEL)] = " "
    source, target = (
        [_shorten(token).translate(boxes) for token in tokens]
        for tokens in (source_tokens, target_tokens)
    )
    columns = min(num_heads, MAX_COLUMNS)
    rows = math.ceil(num_heads / columns)
    # Cells are square, and each panel has room for its longest labels. The sizes are known, and a
    # layout engine would take many times as long.
    left, top = (_longest(labels) + GAP + AXIS_TITLE for labels in (target, source))
    cells_width, cells_height = CELL * num_columns, CELL * num_rows
    width = columns * (left + cells_width + GAP)
    heading = _wrap(title.translate(boxes), width - 2 * GAP)
    title_height = GAP * bool(heading) + LINE * len(heading)
    height = title_height + rows * (top + cells_height + GAP)
    scale = min(1.0, MAX_SIDE / width, MAX_SIDE / height)
    figure = _figure(scale * width, scale * height)
    grid = {
        "left": left / width,
        "right": 1 - GAP / width,
        "bottom": GAP / height,
        "top": 1 - (title_height + top) / height,
        "wspace": (GAP + left) / cells_width,
        "hspace": (GAP + top) / cells_height,
    }
    panels = figure.subplots(rows, columns, squeeze=False, gridspec_kw=grid).flat
    for axes in panels[num_heads:]:
        axes.remove()
    figure.text(
        GAP / width,
        1 - GAP / height,
        "\n".join(heading),
        va="top",
        parse_math=False,
        family=families,
        fontsize=scale * FONT_SIZE,
    )
    for head, weights in enumerate(attention_weights.float().tolist()):
        axes = panels[head]
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _label_tokens(axes, source, target)
        axes.tick_params(labelfontfamily=families, labelsize=scale * FONT_SIZE)
        name = "source" if num_heads == 1 else f"source, head {head + 1}"
        axes.set_xlabel(name, fontsize=scale * FONT_SIZE)
        axes.set_ylabel("target", fontsize=scale * FONT_SIZE)
    return figure


def head_figure(heads: Sequence[Mapping[str, float]]) -> "Figure":
    """Draw a panel for each measure of attention, with one bar for each head.

    In every figure, all panels except entropy have the same scale from 0 to 1.

    Args:
        heads: The measures of the heads, which are numbered from 1.

    Example:
        >>> [axes.get_title() for axes in head_figure([{"entropy": 0.7, "end": 0.1}]).axes]
        ['Entropy', 'Weight of EOS']
    """
    names = [f"head {number}" for number in range(1, len(heads) + 1)]
    columns = min(len(heads[0]), MAX_MEASURES)
    rows = math.ceil(len(heads[0]) / columns)
    figure = _figure(HEAD_WIDTH * columns, rows * (BAR * len(heads) + TITLES_AND_AXIS))
    figure.set_layout_engine("constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes in panels[len(heads[0]) :]:
        axes.remove()
    for number, measure in enumerate(heads[0]):
        axes = panels[number]
        values = [head[measure] for head in heads]
        bars = axes.barh(range(len(names)), values, height=0.7, color="#4477aa")
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=FONT_SIZE)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(MEASURES[measure].title)
        if measure == "entropy":
            axes.set_xlabel("nats")
            axes.margins(x=0.3)
        else:
            axes.set_xlim(0, 1.3)
            axes.set_xticks([0, 0.5, 1])
        if number % columns:
            axes.tick_params(labelleft=False)
    return figure


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(figure)
    return figure


def _shorten(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "\u2026"


def _wrap(text: str, width: float) -> list[str]:
    """Break a text into lines of at most a width in inches."""
    characters = max(int(width / NARROW_LETTER), 1)
    return [line for each in text.splitlines() for line in textwrap.wrap(each, characters)]


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
    axes.xaxis.set_label_position("top")
    axes.set_xticks(
        range(0, len(source), every_column), source[::every_column], rotation=90, parse_math=False
    )
    axes.set_yticks(range(0, len(target), every_row), target[::every_row], parse_math=False)
    axes.tick_params(length=0)
    columns = [column - 0.5 for column in range(1, len(source))]
    rows = [row - 0.5 for row in range(1, len(target))]
    axes.vlines(columns, -0.5, len(target) - 0.5, colors=GRID, linewidth=0.5)
    axes.hlines(rows, -0.5, len(source) - 0.5, colors=GRID, linewidth=0.5)


MISSING = "\u25a1"
"""Replacement for a character that no installed font has."""
OWN_FONT = "DejaVu Sans"
"""The font that comes with matplotlib."""
_SCRIPTS = (
    *("Arabic", "Hebrew", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil"),
    *("Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Khmer", "Myanmar", "Ethiopic"),
)
FALLBACK_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans"),
    *(f"Noto Sans {script}" for script in _SCRIPTS),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Microsoft YaHei"),
    *("Malgun Gothic", "Hiragino Sans", "PingFang SC", "Arial Unicode MS", "Unifont"),
)
"""Fonts that are used, if installed, for characters that all fonts before them lack. Each font adds
about a millisecond to every figure."""


def choose_fonts(labels: Iterable[str]) -> tuple[list[str], dict[int, str]]:
    """Return font families for the labels, and what `str.translate` is to replace.

    matplotlib draws each character with the first family that has it. The first family is
    matplotlib's setting `font.family`, which a file `matplotlibrc` can change. A character that no
    family has, or that cannot be printed, is shown as `MISSING`. The first character without a font
    causes a warning.
    """
    import matplotlib  # loaded on first use, as above

    families, known = _installed(*matplotlib.rcParams["font.family"])
    characters = set("".join(labels))
    printable = set(filter(str.isprintable, characters))
    missing = {each for each in printable if ord(each) not in known}
    if missing:
        _warn(f"{matplotlib.get_cachedir()}/fontlist*")
    return families, str.maketrans(dict.fromkeys(missing | (characters - printable), MISSING))


@functools.cache
def _installed(*first: str) -> tuple[list[str], frozenset[int]]:
    """Return the families, the installed fallback fonts after them, and the characters of all."""
    from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names

    names = get_font_names()
    families = [*first, OWN_FONT, *(each for each in FALLBACK_FONTS if each in names)]
    paths = [findfont(FontProperties(family=[each])) for each in families]
    return families, frozenset().union(*(get_font(path).get_charmap() for path in paths))


@functools.cache
def _warn(font_list: str) -> None:
    """Log once in a process that characters cannot be drawn."""
    logger.warning(
        "some characters are in no installed font, so figures show %s; install fonts, for "
        "example with apt install fonts-noto-core fonts-noto-cjk, and delete matplotlib's list of "
        "fonts, %s",
        MISSING,
        font_list,
    )
