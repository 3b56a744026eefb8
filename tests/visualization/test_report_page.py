import builtins
import io
import json
import re

from seq2seq.visualization.report_page import (
    Cell,
    Chart,
    Column,
    Section,
    Series,
    ShownSentence,
    ShownTranslation,
    StudyPage,
    Table,
    plotly_script,
)

HOSTILE = "</script><script>window.hacked = 1</script>{{data}}\"'&"


def make_page(text="dot"):
    table = Table(
        caption=text,
        columns=[Column(text, is_numeric=False), Column("BLEU", hint=text)],
        rows=[[Cell(text), Cell("31.5", 31.5)], [Cell("none"), Cell("-")]],
    )
    chart = Chart(
        title=text,
        x_label=text,
        y_label="BLEU",
        kind="points",
        series=[Series(group=0, x={text: [0.5]}, y=[31.5], hints=[text])],
    )
    translation = ShownTranslation(0, text, [text, "</s>"], [text], [[[60, 40]]])
    section = Section(
        title="Results", paragraphs=[text], items=[text], charts=[chart], tables=[table]
    )
    return StudyPage(
        title=text,
        groups=[text],
        sections=[section],
        sentences=[ShownSentence(text, text, [translation])],
    )


def write(page):
    output = io.BytesIO()
    page.write(output)
    return output.getvalue().decode()


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def test_text_is_escaped_everywhere():
    page = write(make_page(HOSTILE))

    assert page.count("<script") == write(make_page()).count("<script")
    assert page.count("</script>") == write(make_page()).count("</script>")
    assert data_of(page)["groups"] == [HOSTILE]
    assert data_of(page)["sentences"][0]["translations"][0]["text"] == HOSTILE


def test_a_lone_surrogate_does_not_stop_the_page():
    assert data_of(write(make_page("\udc80")))["groups"] == ["\udc80"]


def test_tables_have_captions_heads_and_values_to_sort_by():
    page = write(make_page())

    assert "<caption>dot</caption>" in page
    assert page.count('<th scope="col"') == page.count('<th scope="row"') == 2
    assert '<td class="number" data-value="31.5">31.5</td>' in page
    assert '<td class="number">-</td>' in page


def test_the_page_has_plotly_once_and_needs_nothing_else():
    page = write(make_page())

    assert page.count(plotly_script()) == 1
    assert len(page) < 6_000_000
    own = page.replace(plotly_script(), "")
    assert re.findall(r'(?:src|href)="(?!#)', own) == []
    assert "http" not in own.replace('http-equiv="Content-Security-Policy"', "")


def test_without_plotly_the_tables_are_written(monkeypatch):
    original = builtins.__import__

    def no_plotly(name, *arguments, **keywords):
        if name.startswith("plotly"):
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", no_plotly)

    page = write(make_page())

    assert plotly_script() == ""
    assert len(page) < 50_000
    assert "31.5" in page
    assert "pip install plotly" in page
