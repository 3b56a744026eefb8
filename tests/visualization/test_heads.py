"""The figure of heads shows each statistic of each head inside its panel."""

import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from seq2seq.evaluation.attention_statistics import HeadStatistics
from seq2seq.visualization.heads import head_figure

HEADS = [
    HeadStatistics(0.5, 0.25, 1.0, 0.125),
    HeadStatistics(2.25, 0.75, 0.375, 0.625),
    HeadStatistics(0.0, 1.0, 0.0, 1.0),
]
UNALIGNED = [head._replace(alignment_error_rate=None) for head in HEADS]


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def test_each_statistic_has_a_panel_with_one_bar_for_each_head():
    figure = head_figure(HEADS)

    lengths = {axes.get_title(): [bar.get_width() for bar in axes.patches] for axes in figure.axes}
    assert lengths == {
        "entropy": [0.5, 2.25, 0.0],
        "coverage": [0.25, 0.75, 1.0],
        "sharpness": [1.0, 0.375, 0.0],
        "alignment error rate": [0.125, 0.625, 1.0],
    }


def test_bars_have_values_and_the_first_panel_has_names():
    entropy, *_ = head_figure(HEADS).axes

    assert [text.get_text() for text in entropy.texts] == ["0.50", "2.25", "0.00"]
    names = [label.get_text() for label in entropy.get_yticklabels()]
    assert names == ["head 1", "head 2", "head 3"]
    bottom, top = entropy.get_ylim()
    assert bottom > top


def test_without_gold_alignments_there_is_no_panel_for_them():
    assert titles(head_figure(UNALIGNED)) == ["entropy", "coverage", "sharpness"]


@pytest.mark.parametrize("num_heads", [2, 9])
def test_values_stay_within_their_panels(num_heads):
    figure = head_figure((HEADS * 3)[:num_heads])
    canvas = FigureCanvasAgg(figure)

    canvas.draw()

    for axes in figure.axes:
        panel = axes.get_window_extent()
        assert len(axes.texts) == num_heads
        for text in axes.texts:
            box = text.get_window_extent()
            assert panel.x0 <= box.x0 <= box.x1 <= panel.x1
    highest = max(axes.get_tightbbox().y1 for axes in figure.axes)
    assert highest <= figure.bbox.height


def test_nan_statistics_are_dashes():
    figure = head_figure([HeadStatistics(math.nan, math.nan, math.nan, None)] * 2)

    FigureCanvasAgg(figure).draw()

    assert [text.get_text() for text in figure.axes[0].texts] == ["-", "-"]


def test_no_heads_are_an_error():
    with pytest.raises(ValueError, match="at least one head"):
        head_figure([])
