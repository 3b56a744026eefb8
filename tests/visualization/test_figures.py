import json

import pytest
from colors import contrast

from seq2seq.visualization.figures import COLORS, SHAPES, Series, draw_chart

X = {"Updates": [10.0, 20.0], "Minutes": [1.5, 3.5]}


def traces_of(chart):
    return json.loads(json.dumps(chart["figure"]["data"]))


def test_a_line_has_a_band_from_the_lowest_to_the_highest_run_on_each_axis():
    series = Series(1, "dot", x=X, y=[3.0, 4.0], low=[1.0, 2.0], high=[5.0, 6.0])

    chart = draw_chart("BLEU", "BLEU", "lines", [series])

    band, line = traces_of(chart)

    assert (line["x"], line["y"], line["mode"]) == ([10.0, 20.0], [3.0, 4.0], "lines+markers")
    assert (band["x"], band["y"]) == ([10.0, 20.0, 20.0, 10.0], [5.0, 6.0, 2.0, 1.0])
    assert band["meta"] == line["meta"] == 1
    assert list(chart["axes"]) == ["Updates", "Minutes"]
    traces, layout = chart["axes"]["Minutes"]
    assert list(map(list, traces["x"])) == [[1.5, 3.5, 3.5, 1.5], [1.5, 3.5]]
    assert traces["hovertemplate"][1].startswith("Minutes %{x")
    assert layout == {
        "xaxis.title.text": "Minutes",
        "xaxis.autorange": True,  # a zoom into updates would show no minutes
        "hovermode": "closest",
    }
    assert chart["figure"]["layout"]["hovermode"] == "x unified"


def test_bins_are_categories_with_error_bars():
    series = Series(0, "dot", x={"Words": ["1", "2-3"]}, y=[3.0, None], deviations=[0.5, 0.0])

    chart = draw_chart("Length", "BLEU", "bins", [series])

    [trace] = traces_of(chart)
    assert trace["error_y"]["array"] == [0.5, 0.0]
    assert chart["figure"]["layout"]["xaxis"]["type"] == "category"
    assert chart["axes"] == {}


def test_points_have_their_hints_and_no_markup():
    series = Series(0, "<b>", x={"AER": [0.5]}, y=[3.0], hints=["<i>"])

    chart = draw_chart("AER", "BLEU", "points", [series])

    [trace] = traces_of(chart)
    assert (trace["name"], trace["text"]) == ("&lt;b&gt;", ["&lt;i&gt;"])
    assert trace["hovertemplate"] == "AER %{x:.4~g}, BLEU %{y:.4~g} (%{text})"
    assert (trace["mode"], chart["figure"]["layout"]["hovermode"]) == ("markers", "closest")


def test_groups_differ_in_colour_or_shape_and_lines_beyond_the_colours_in_dashes():
    series = [Series(group, "", x=X, y=[1.0, 2.0]) for group in range(110)]

    traces = traces_of(draw_chart("BLEU", "BLEU", "lines", series))

    assert len({(each["marker"]["color"], each["marker"]["symbol"]) for each in traces}) == 110
    assert [traces[i]["line"]["dash"] for i in (0, 9, 10, 20, 30)] == [
        *("solid", "solid", "dash", "dot", "solid")
    ]
    assert len({character for _, character in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize("paper", ["#ffffff", "#14161a"])
@pytest.mark.parametrize("color", COLORS)
def test_colours_have_contrast_on_the_paper_of_each_scheme(color, paper):
    assert contrast(*(bytes.fromhex(each[1:]) for each in (color, paper))) >= 3
