"""The attention of a study: statistics of each type and of each head, and AER beside BLEU."""

import json
from collections.abc import Sequence

from seq2seq.cli.studies.formats import HINTS, NAMES, known_measures, spread
from seq2seq.cli.studies.runs import RESULTS, Group, Run
from seq2seq.visualization.report_page import Cell, Chart, Column, Section, Series, Table

_MEASURES = ("entropy", "coverage", "sharpness", "aer")
_HEAD = ("entropy", "coverage", "sharpness", "alignment_error_rate")
_HEAD_NAMES = dict(zip(_HEAD, _MEASURES, strict=True))
Head = dict[str, float | None]


def attention(groups: Sequence[Group]) -> Section:
    """Return the tables and charts of attention on the test set; empty without attention."""
    measures = known_measures(groups, _MEASURES)
    if not measures:
        return Section(title="Attention")
    heads = [(i, run, read_heads(run)) for i, group in enumerate(groups) for run in group.runs]
    charts = [chart for chart in (_aer_chart(groups), _head_chart(heads)) if chart.series]
    tables = [_group_table(groups, measures)]
    if any(of_run for _, _, of_run in heads):
        tables.append(_head_table(groups, heads))
    text = (
        "Attention to the sources of the test set while the references are read. Entropy is low "
        "and sharpness is high where a target token looks at few source tokens; coverage is 1 "
        "where no source token is left out. AER, where there are gold links, says how far the "
        "most attended words are from them; 0 is perfect. Heads have no order: head 1 of one seed "
        "is not head 1 of another."
    )
    return Section(title="Attention", paragraphs=[text], charts=charts, tables=tables)


def read_heads(run: Run) -> list[Head]:
    """Return the statistics of each head of a run on the test set."""
    results = json.loads((run.path / RESULTS).read_text(encoding="utf-8"))
    heads: list[Head] = (results["test"] or {}).get("heads", [])
    return heads


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
    label = NAMES[_HEAD_NAMES[vertical]]
    title = f"Entropy and {label if has_aer else 'sharpness'}: a point for each head of each run"
    return Chart(title=title, x_label="Entropy", y_label=label, kind="points", series=series)


def _group_table(groups: Sequence[Group], measures: Sequence[str]) -> Table:
    columns = [Column("Group", is_numeric=False)]
    names = [*measures, "bleu"]
    columns += [Column(NAMES[name], hint=HINTS.get(name, "")) for name in names]
    rows = [[Cell(group.label), *(spread(group, name) for name in names)] for group in groups]
    caption = "Attention of each group: mean over heads, \xb1 standard deviation over the runs"
    return Table(caption=caption, columns=columns, rows=rows)


def _head_table(groups: Sequence[Group], heads: Sequence[tuple[int, Run, list[Head]]]) -> Table:
    columns = [Column("Group", is_numeric=False), Column("Run", is_numeric=False), Column("Head")]
    columns += [Column(NAMES[name], hint=HINTS.get(name, "")) for name in _MEASURES]
    rows = []
    for group, run, of_run in heads:
        for number, head in enumerate(of_run, start=1):
            values = [
                Cell("-") if (value := head[name]) is None else Cell(f"{value:.3f}", value)
                for name in _HEAD
            ]
            label = groups[group].label
            rows.append([Cell(label), Cell(run.name), Cell(str(number), number), *values])
    return Table(caption="Attention of each head", columns=columns, rows=rows, is_folded=True)


def _name(group: Group, run: Run) -> str:
    return f"{group.label}, seed {run.seed}" if run.seed else run.name
