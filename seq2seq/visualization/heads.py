"""Figure that compares attention heads by their statistics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2seq.evaluation.attention_statistics import HeadStatistics
from seq2seq.visualization.plots import BAR, draw_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches.
WIDTH = 2.4
TITLES_AND_AXIS = 1.0


def head_figure(heads: Sequence[HeadStatistics]) -> "Figure":
    """Draw a panel for each statistic, with one bar for each head.

    All panels but entropy have the same scale from 0 to 1 in every figure.

    Args:
        heads: Statistics of the heads, which are numbered from 1.

    Raises:
        ValueError: There are no heads.

    Example:
        >>> head = HeadStatistics(
        ...     entropy=0.7, coverage=0.9, sharpness=0.8, alignment_error_rate=None
        ... )
        >>> [axes.get_title() for axes in head_figure([head]).axes]
        ['entropy', 'coverage', 'sharpness']
    """
    from matplotlib.figure import Figure  # matplotlib is loaded on first use, as in plots

    if not heads:
        raise ValueError("a figure of heads needs at least one head")
    panels: list[tuple[str, str, list[float]]] = [
        ("entropy", "nats", [head.entropy for head in heads]),
        ("coverage", "1: all source tokens", [head.coverage for head in heads]),
        ("sharpness", "1: one source token", [head.sharpness for head in heads]),
    ]
    rates = [rate for head in heads if (rate := head.alignment_error_rate) is not None]
    if len(rates) == len(heads):
        panels.append(("alignment error rate", "0: as the gold links", rates))
    names = [f"head {number}" for number in range(1, len(heads) + 1)]
    figure = Figure(
        figsize=(WIDTH * len(panels), BAR * len(heads) + TITLES_AND_AXIS),
        dpi=100,
        layout="constrained",
    )
    for number, (title, unit, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        draw_bars(axes, names, values)
        axes.set_title(title)
        axes.set_xlabel(unit)
        if unit == "nats":
            axes.margins(x=0.3)
        else:
            axes.set_xlim(0, 1.3)
            axes.set_xticks([0, 0.5, 1])
        if number > 1:
            axes.tick_params(labelleft=False)
    return figure
