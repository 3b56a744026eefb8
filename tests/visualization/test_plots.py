from itertools import pairwise

import matplotlib
import pytest
import torch
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from tiny_attention import make_weights

from seq2seq.visualization import plots
from seq2seq.visualization.plots import (
    MAX_LABEL,
    MISSING,
    OWN_FONT,
    attention_figure,
    choose_fonts,
    head_figure,
)

SOURCE = ["Ein", "Hund", "rennt", ".", "</s>"]
TARGET = ["A", "dog", "</s>"]


def texts(labels):
    return [label.get_text() for label in labels]


def draw(figure):
    """Return the pixels; any warning of matplotlib is an error here."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    return canvas.buffer_rgba()


@pytest.mark.parametrize("num_heads", [1, 3, 6])
def test_each_head_has_a_panel_with_its_weights_and_its_number(num_heads):
    weights = make_weights(num_heads)

    figure = attention_figure(weights, SOURCE, TARGET)

    panels = [torch.tensor(axes.images[0].get_array().tolist()) for axes in figure.axes]
    torch.testing.assert_close(torch.stack(panels), weights)
    names = [f"source, head {number}" for number in range(1, num_heads + 1)]
    expected = names if num_heads > 1 else ["source"]
    assert [axes.get_xlabel() for axes in figure.axes] == expected
    assert {axes.get_ylabel() for axes in figure.axes} == {"target"}


def test_the_title_stands_above_the_panels_in_lines_that_fit():
    title = "Der Hund sieht die Katze nicht.\nThe dog does not see the cat."

    figure = attention_figure(make_weights(1), SOURCE, TARGET, title=title)

    draw(figure)
    [text] = figure.texts
    assert text.get_text().split() == title.split()
    inside, panel = text.get_window_extent(), figure.axes[0].get_tightbbox()
    assert figure.bbox.x0 <= inside.x0 and inside.x1 <= figure.bbox.x1
    assert panel.y1 <= inside.y0 and inside.y1 <= figure.bbox.y1


def test_the_sign_for_a_space_is_drawn_as_a_space():
    [axes] = attention_figure(make_weights(1), ["\u2581ein", *SOURCE[1:]], TARGET).axes

    assert texts(axes.get_xticklabels())[0] == " ein"


def test_source_labels_the_columns_on_top_and_target_the_rows():
    [axes] = attention_figure(make_weights(1), SOURCE, TARGET).axes

    assert texts(axes.get_xticklabels()) == SOURCE
    assert texts(axes.get_yticklabels()) == TARGET
    assert axes.xaxis.get_ticks_position() == "top"
    # The first target token stands above the second.
    bottom, top = axes.get_ylim()
    assert bottom > top


@pytest.mark.parametrize(("num_rows", "num_columns"), [(2, 5), (17, 9), (40, 50)])
def test_labels_stay_inside_the_figure_and_do_not_overlap(num_rows, num_columns):
    source = [f"Wort{i}" for i in range(num_columns)]
    target = ["MMMMMMMMMM"] * num_rows
    figure = attention_figure(make_weights(1, num_rows, num_columns), source, target)
    draw(figure)

    for axes in figure.axes:
        columns = [label.get_window_extent() for label in axes.get_xticklabels()]
        rows = [label.get_window_extent() for label in axes.get_yticklabels()]
        for box in columns + rows:
            assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
            assert 0 <= box.y0 <= box.y1 <= figure.bbox.height
        assert all(one.x1 <= other.x0 for one, other in pairwise(columns))
        assert all(one.y0 >= other.y1 for one, other in pairwise(rows))


def test_dark_cells_are_the_high_weights():
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    figure = attention_figure(weights, ["a", "b"], ["c", "d"])
    pixels = torch.tensor(draw(figure).tolist())

    [axes] = figure.axes
    box = axes.get_window_extent()
    height = int(figure.bbox.height)

    def brightness(x, y):
        column, row = box.x0 + x * box.width, height - (box.y0 + y * box.height)
        return pixels[int(row), int(column), :3].sum().item()

    top_left, top_right = brightness(0.25, 0.75), brightness(0.75, 0.75)
    bottom_left, bottom_right = brightness(0.25, 0.25), brightness(0.75, 0.25)
    assert max(top_left, bottom_right) < 400 < 700 < min(top_right, bottom_left)


@pytest.mark.parametrize(
    "label",
    [
        "\u4e2d\u6587",
        "\u0645\u0631",
        "\u0939\u093f",
        "\U0001f600",
        "a\nb\t",
        "\ud800",
        "\U000f1234",
        "$\\frac$",  # no formula
    ],
)
def test_any_character_is_drawn_without_a_warning(label):
    draw(attention_figure(make_weights(1, 1, 2), [label, "b"], [label]))


def test_a_long_token_is_shortened():
    figure = attention_figure(
        make_weights(1, 1, 2), ["x" * (MAX_LABEL + 1), "x" * MAX_LABEL], ["a"]
    )

    short, whole = texts(figure.axes[0].get_xticklabels())
    assert short == "x" * (MAX_LABEL - 1) + "\u2026"
    assert whole == "x" * MAX_LABEL


def test_a_figure_of_thousands_of_tokens_has_a_limited_size():
    figure = attention_figure(make_weights(1, 700, 900), ["a"] * 900, ["b"] * 700)

    width, height = figure.get_size_inches()
    assert max(width, height) <= 60.001
    assert len(figure.axes[0].get_xticks()) <= 150


def test_labels_of_another_sentence_are_refused():
    message = "^attention of 3 target and 2 source .* not 3 and 1; "
    with pytest.raises(ValueError, match=message):
        attention_figure(torch.zeros(1, 3, 2), ["a"], TARGET)


HEADS = [
    {"aer": 0.125, "entropy": 0.5, "end": 1.0},
    {"aer": 0.625, "entropy": 2.25, "end": 0.375},
    {"aer": 1.0, "entropy": 0.0, "end": 0.0},
]


def test_each_statistic_has_a_panel_with_a_bar_and_a_value_for_each_head():
    figure = head_figure(HEADS)

    lengths = {axes.get_title(): [bar.get_width() for bar in axes.patches] for axes in figure.axes}
    assert lengths == {
        "AER": [0.125, 0.625, 1.0],
        "Entropy": [0.5, 2.25, 0.0],
        "Weight of EOS": [1.0, 0.375, 0.0],
    }

    first, *_ = figure.axes
    assert texts(first.texts) == ["0.12", "0.62", "1.00"]
    assert texts(first.get_yticklabels()) == ["head 1", "head 2", "head 3"]
    bottom, top = first.get_ylim()
    assert bottom > top


def test_measures_stand_in_rows_of_three():
    figure = head_figure([dict.fromkeys(("aer", "entropy", "end", "backward"), 0.5)])

    grid = [axes.get_subplotspec() for axes in figure.axes]
    places = [(each.rowspan.start, each.colspan.start) for each in grid]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0)]


PRIVATE = "\U0010fffd"
MIAO = "\U00016f00"
"""A letter of a script that none of the fonts has that matplotlib brings."""


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    """Let each test be the first of a process, on a machine without further fonts."""
    known = font_manager.fontManager.ttflist
    brought = [each for each in known if each.fname.startswith(matplotlib.get_data_path())]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", brought)
    for function in (plots._installed, plots._warn):
        function.cache_clear()


def test_characters_without_a_font_are_boxes_with_one_warning(caplog):
    _, boxes = choose_fonts([MIAO, PRIVATE, f"a{MIAO}"])
    choose_fonts([chr(ord(MIAO) + 1)])

    assert f"a{MIAO}{PRIVATE}".translate(boxes) == f"a{MISSING}{MISSING}"
    [message] = caplog.messages
    assert "apt install fonts-noto" in message
    assert message.endswith("/fontlist*")


def test_the_font_of_matplotlibs_settings_comes_first_and_others_complete_it(monkeypatch):
    # cmb10, which matplotlib brings, has no umlaut.
    monkeypatch.setattr(plots, "FALLBACK_FONTS", ("absent", "STIXGeneral"))
    with matplotlib.rc_context({"font.family": ["cmb10"]}):
        assert choose_fonts(["H\u00e4user"]) == (["cmb10", OWN_FONT, "STIXGeneral"], {})


@pytest.mark.parametrize("character", ["\n", "\t", "\0", "\ud800"])
def test_characters_that_cannot_be_printed_are_boxes_without_a_warning(caplog, character):
    assert character.translate(choose_fonts([character])[1]) == MISSING
    assert caplog.records == []
