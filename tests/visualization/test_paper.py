import io
import json
from pathlib import Path

import pytest

from seq2seq.visualization.figures import Series, draw_chart
from seq2seq.visualization.page import Cell, Column, Section, Table
from seq2seq.visualization.paper import (
    DASHES,
    MARKERS,
    PaperFormat,
    latex_table,
    markdown_table,
    save_figure,
    write_paper,
)

TABLE = Table(
    caption="Groups: all of them",
    columns=[Column("model_size", is_numeric=False), Column("Difference")],
    rows=[
        [Cell("a_b & 5% {$x}"), Cell("-0.52 to +1.30")],
        [Cell("<unk>|*"), Cell("1e-05")],
        [Cell("[a.de,a.en]"), Cell("1.0 (-2.0 to -0.5)")],
    ],
)


def figure(chart, ending="svg"):
    file = io.BytesIO()
    save_figure(chart, file, ending)
    return file.getvalue()


def lines(**options):
    series = [
        Series(0, "<dot>", x={"Updates": [1.0, 2.0]}, y=[3.0, 4.0], **options),
        Series(1, "$none$", x={"Updates": [1.0, 2.0]}, y=[2.0, None]),
    ]
    return draw_chart("BLEU, validation", "BLEU", "lines", series)


def test_a_table_in_latex_has_rules_minus_signs_and_escaped_texts():
    caption, *rows = latex_table(TABLE).splitlines()

    assert caption == "% Groups: all of them"
    assert [" ".join(row.split()) for row in rows] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"model\_size & Difference \\",
        r"\midrule",
        r"a\_b \& 5\% \{\$x\} & $-$0.52 to +1.30 \\",
        r"\ensuremath{<}unk\ensuremath{>}|* & 1e-05 \\",
        r"{[}a.de,a.en] & 1.0 ($-$2.0 to $-$0.5) \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_table_in_markdown_has_one_row_for_each_row_and_no_markup():
    caption, empty, *rows = markdown_table(TABLE).splitlines()

    assert (caption, empty) == ("Groups: all of them", "")
    head, rule, first, second, _ = (row.split() for row in rows)
    assert head == ["|", r"model\_size", "|", "Difference", "|"]
    assert rule[0].startswith("|:-") and rule[0].endswith("-:|")
    assert first[1:-1] == [r"a\_b", "&", "5%", "{$x}", "|", "-0.52", "to", "+1.30"]
    assert second[1:-1] == [r"\<unk\>\|\*", "|", "1e-05"]


def test_a_figure_names_its_axes_and_its_groups_as_they_are():
    text = figure(lines(low=[2.0, 3.0], high=[4.0, 5.0])).decode()

    assert all(f"<!-- {name} -->" in text for name in ("Updates", "BLEU", "&lt;dot&gt;", "$none$"))


def test_a_figure_that_is_drawn_again_is_the_same_file():
    for ending in ("svg", "pdf"):
        assert figure(lines(), ending) == figure(lines(), ending)


@pytest.mark.parametrize("kind", ["bins", "points"])
def test_bins_and_points_are_drawn(kind):
    words = ["1", "2-3", "4+"] if kind == "bins" else [1.0, 2.0, 4.0]
    deviations = [0.5, 0.0, 0.25] if kind == "bins" else ()
    series = Series(3, "dot", x={"Words": words}, y=[3.0, None, 4.0], deviations=deviations)

    text = figure(draw_chart("Length", "BLEU", kind, [series])).decode()

    assert ("<!-- 2-3 -->" in text) == (kind == "bins")
    assert "<!-- dot -->" not in text  # one group needs no legend


def test_44_groups_differ_in_marker_or_dashes():
    pairs = {(MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]) for i in range(44)}

    assert len(pairs) == 44


@pytest.mark.parametrize(("chosen", "endings"), [("latex", "tex pdf"), ("markdown", "md svg")])
def test_each_table_and_figure_of_a_report_has_a_file(tmp_path, chosen, endings):
    content = json.loads((Path(__file__).parents[2] / "docs" / "study.json").read_text())
    tables = [
        Table(
            caption=each["caption"],
            columns=[Column(*column) for column in each["columns"]],
            rows=[[Cell(*cell) for cell in row] for row in each["rows"]],
        )
        for section in content["sections"]
        for each in section["tables"]
    ]
    charts = [chart for section in content["sections"] for chart in section["charts"]][::4]

    write_paper([Section(title="", tables=tables, charts=charts)], tmp_path, PaperFormat[chosen])

    of_tables, of_figures = ({*tmp_path.glob(f"*.{ending}")} for ending in endings.split())
    assert (len(of_tables), len(of_figures)) == (len(tables), len(charts))
    names = {path.stem for path in (*of_tables, *of_figures)}
    assert {"groups", "bleu-by-source-length"} <= names
