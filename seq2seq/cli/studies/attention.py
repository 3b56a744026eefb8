"""The attention of a study: statistics of each type and of each head, and AER beside BLEU."""

from collections.abc import Sequence

from seq2seq.cli.studies.formats import column, known_measures, number_cell, spread
from seq2seq.cli.studies.run_files import MEASURES, RESULTS, Head, read_heads
from seq2seq.cli.studies.runs import Group, Run
from seq2seq.visualization.report_page import Cell, Chart, Column, Section, Series, Table

_MEASURES = ("entropy", "coverage", "sharpness", "aer")
_HEAD = ("entropy", "coverage", "sharpness", "alignment_error_rate")
_HEAD_NAMES = dict(zip(_HEAD, _MEASURES, strict=True))


def attention(groups: Sequence[Group]) -> Section:
    """Return the tables and charts of attention on the test set; empty without attention."""
    measures = known_measures(groups, _MEASURES)
    if not measures:
        return Section(title="Attention")
    heads = [
        (i, run, read_heads(run.path / RESULTS))
        for i, group in enumerate(groups)
        for run in group.runs
    ]
    charts = [chart for chart in (_aer_chart(groups), _head_chart(heads)) if chart.series]
    tables = [_group_table(groups, measures)]
    if any(of_run for _, _, of_run in heads):
        tables.append(_head_table(groups, heads))
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
        known = [run for run in group.runs if {"aer", "bleu"} <= run.measures.keys()]
        if known:
            series.append(
                Series(
                    group=index,
                    x={"aer": [run.measures["aer"] for run in known]},
                    y=[run.measures["bleu"] for run in known],
                    hints=[_name(group, run) for run in known],
                )
            )
    title = "AER beside BLEU: a point for each run"
    return Chart(title=title, x_label="AER", y_label="BLEU", kind="points", series=series)


def _head_chart(heads: Sequence[tuple[int, Run, list[Head]]]) -> Chart:
    has_aer = any(head["alignment_error_rate"] is not None for *_, each in heads for head in each)
    vertical = "alignment_error_rate" if has_aer else "sharpness"
    points: dict[int, list[tuple[float, float, str]]] = {}
    for group, run, of_run in heads:
        for number, head in enumerate(of_run, start=1):
            x, y = head["entropy"], head[vertical]
            if x is not None and y is not None:
                points.setdefault(group, []).append((x, y, f"{run.name}, head {number}"))
    series = [
        Series(
            group=group,
            x={"entropy": [x for x, _, _ in each]},
            y=[y for _, y, _ in each],
            hints=[hint for *_, hint in each],
        )
        for group, each in points.items()
    ]
    label = MEASURES[_HEAD_NAMES[vertical]].title
    title = f"Entropy and {label if has_aer else 'sharpness'}: a point for each head of each run"
    return Chart(title=title, x_label="Entropy (nats)", y_label=label, kind="points", series=series)


def _group_table(groups: Sequence[Group], measures: Sequence[str]) -> Table:
    names = [*measures, "bleu"]
    columns = [Column("Group", is_numeric=False), *map(column, names)]
    rows = [[Cell(group.label), *(spread(group, name) for name in names)] for group in groups]
    caption = "Attention of each group: all heads, mean \xb1 standard deviation over the runs"
    return Table(caption=caption, columns=columns, rows=rows)


def _head_table(groups: Sequence[Group], heads: Sequence[tuple[int, Run, list[Head]]]) -> Table:
    columns = [Column("Group", is_numeric=False), Column("Run", is_numeric=False), Column("Head")]
    columns += map(column, _MEASURES)
    rows = [
        [
            Cell(groups[group].label),
            Cell(run.name),
            Cell(str(index), index),
            *(number_cell(head[name], ".3f") for name in _HEAD),
        ]
        for group, run, of_run in heads
        for index, head in enumerate(of_run, start=1)
    ]
    return Table(caption="Attention of each head", columns=columns, rows=rows, is_folded=True)


def _name(group: Group, run: Run) -> str:
    return f"{group.label}, seed {run.seed}" if run.seed else run.name
