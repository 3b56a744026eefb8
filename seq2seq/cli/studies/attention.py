"""The attention of a study: statistics of each type and of each head, and AER beside BLEU."""

from collections.abc import Iterator, Sequence

from seq2seq.cli.studies.formats import column, known_measures, number_cell, spread
from seq2seq.cli.studies.run_files import MEASURES
from seq2seq.cli.studies.runs import Group, Run
from seq2seq.visualization.report_page import Cell, Chart, Column, Section, Series, Table

_MEASURES = ("entropy", "coverage", "sharpness", "aer")


def attention(groups: Sequence[Group]) -> Section:
    """Return the tables and charts of attention on the test set; empty without attention."""
    measures = known_measures(groups, _MEASURES)
    if not measures:
        return Section(title="Attention")
    charts = [chart for chart in (_aer_chart(groups), _head_chart(groups)) if chart.series]
    tables = [_group_table(groups, measures)]
    if any(run.results.heads for group in groups for run in group.runs):
        tables.append(_head_table(groups))
    text = (
        "Attention to the sources of the test set while the references are read. Entropy is low "
        "and sharpness is high where a target token looks at few source tokens; coverage is 1 "
        "where no source token is left out. AER, where there are gold links, says how far the "
        "most attended words are from them; 0 is perfect. That of a run with several heads "
        "is the AER of their mean. Heads have no order: head 1 of one seed is not head 1 of "
        "another."
    )
    return Section(title="Attention", paragraphs=[text], charts=charts, tables=tables)


def _aer_chart(groups: Sequence[Group]) -> Chart:
    series = []
    for index, group in enumerate(groups):
        known = [run for run in group.runs if {"aer", "bleu"} <= run.results.measures.keys()]
        if known:
            series.append(
                Series(
                    group=index,
                    x={"aer": [run.results.measures["aer"] for run in known]},
                    y=[run.results.measures["bleu"] for run in known],
                    hints=[_name(group, run) for run in known],
                )
            )
    title = "AER beside BLEU: a point for each run"
    return Chart(title=title, x_label="AER", y_label="BLEU", kind="points", series=series)


def _head_chart(groups: Sequence[Group]) -> Chart:
    has_aer = any(head["aer"] is not None for group in groups for _, _, head in _heads(group))
    vertical = "aer" if has_aer else "sharpness"
    series = []
    for index, group in enumerate(groups):
        points = [
            (x, y, f"{run.name}, head {number}")
            for run, number, head in _heads(group)
            if (x := head["entropy"]) is not None and (y := head[vertical]) is not None
        ]
        if points:
            xs, ys, hints = zip(*points, strict=True)
            series.append(Series(group=index, x={"entropy": xs}, y=ys, hints=hints))
    label = MEASURES[vertical].title
    title = f"Entropy and {label if has_aer else 'sharpness'}: a point for each head of each run"
    return Chart(title=title, x_label="Entropy (nats)", y_label=label, kind="points", series=series)


def _group_table(groups: Sequence[Group], measures: Sequence[str]) -> Table:
    names = [*measures, "bleu"]
    columns = [Column("Group", is_numeric=False), *map(column, names)]
    rows = [[Cell(group.label), *(spread(group, name) for name in names)] for group in groups]
    caption = "Attention of each group: all heads, mean \xb1 standard deviation over the runs"
    return Table(caption=caption, columns=columns, rows=rows)


def _head_table(groups: Sequence[Group]) -> Table:
    columns = [Column("Group", is_numeric=False), Column("Run", is_numeric=False), Column("Head")]
    columns += map(column, _MEASURES)
    rows = [
        [
            Cell(group.label),
            Cell(run.name),
            Cell(str(number), number),
            *(number_cell(head[name], ".3f") for name in _MEASURES),
        ]
        for group in groups
        for run, number, head in _heads(group)
    ]
    return Table(caption="Attention of each head", columns=columns, rows=rows, is_folded=True)


def _heads(group: Group) -> Iterator[tuple[Run, int, dict[str, float | None]]]:
    """Yield each head of each run, with its number from 1."""
    for run in group.runs:
        for number, head in enumerate(run.results.heads, start=1):
            yield run, number, head


def _name(group: Group, run: Run) -> str:
    return f"{group.label}, seed {run.seed}" if run.seed else run.name
