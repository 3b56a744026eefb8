"""Sections of a report with charts: learning curves, attention, and BLEU by length.

A function adds to `notes` what its section leaves out.
"""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from seq2seq.checks import counted
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.metrics import bins_at, corpus_bleu, equal_bins, text_lengths
from seq2seq.evaluation.significance import compare_groups
from seq2seq.studies.agreement import Divergences, link_errors, mean_divergence
from seq2seq.studies.comparison import (
    GROUP,
    MOMENTS,
    groups_with_first_test_set,
    have_same_tokens,
    known_measures,
    measure_columns,
    moment,
    number_cell,
    number_column,
    text_column,
)
from seq2seq.studies.runs import RUN_MEASURES, Group, Spread, StudyRun
from seq2seq.training.curves import MINUTES, TARGET_TOKENS, TRAIN_LOSS
from seq2seq.visualization.figures import Chart, Series, draw_chart
from seq2seq.visualization.page import Cell, Column, Section, Table

_CURVES = {
    TRAIN_LOSS: ("Training loss", "nats per token", True),
    **{
        f"valid/{name}": (f"{each.title}, validation", each.title, each.is_per_token)
        for name, each in MEASURES.items()
    },
}
"""Title and unit of each curve, and whether its values depend on how a tokenizer splits text."""
_OTHER_TOKENS = (
    "The groups split the validation set into different tokens: a word may be one token in one "
    "group and several in another. The titles of charts with values per token say so. Compare "
    "their lines only between groups with the same tokens; between all groups, compare the loss "
    "per character."
)
_MAX_POINTS = 400
"""Maximum number of points of a line, which bounds the size of the page."""
Curves = Mapping[str, Mapping[int, float]]
"""Value of each curve at each update, by the tag of the curve."""
_OF_ATTENTION = [name for name, each in MEASURES.items() if each.has_heads]
_NUM_LENGTHS = 5


class LengthScore(NamedTuple):
    """BLEU of a group on the test sentences in a range of source length."""

    group: str
    source_length: str
    unit: str
    """Unit of the source length: words or characters."""
    sentences: int
    bleu: float
    bleu_deviation: float | None
    bleu_low: float
    """Lower end of the 95% interval, within the scale of BLEU."""
    bleu_high: float
    interval_covers: str


def curves_section(groups: Sequence[Group], notes: list[str]) -> Section:
    """Return the charts of the learning curves."""
    of_groups: list[list[Curves]] = []
    for group in groups:
        curves = [read_curves(run.directory.tensorboard) for run in group.runs]
        needed = {f"valid/{MINUTES}", f"valid/{TARGET_TOKENS}"}
        notes += [
            f"{run.name} has no learning curves with minutes and target tokens."
            for run, found in zip(group.runs, curves, strict=True)
            if not needed <= found.keys()
        ]
        of_groups.append([found for found in curves if needed <= found.keys()])
    runs = [run.directory for group in groups for run in group.runs]
    are_comparable = have_same_tokens(
        run.read_statistics("valid") for run in runs if run.text("valid", "npz").is_file()
    )
    charts = []
    for tag, (title, unit, is_per_token) in _CURVES.items():
        if is_per_token and not are_comparable:
            title += " (not comparable: other tokens)"
        means = [
            mean_curve(curves, tag, group=i, name=groups[i].label)
            for i, curves in enumerate(of_groups)
        ]
        if series := [each for each in means if each is not None]:
            charts.append(draw_chart(title, unit, "lines", series))
    text = (
        "Lines are means over the runs of a group; bands reach from the lowest to the highest run. "
        f"A line ends where the first of its runs ended. A curve of more than {_MAX_POINTS} points "
        f"is drawn with {_MAX_POINTS} of them, evenly spaced."
    )
    if not charts:
        return Section(title="Learning curves")
    paragraphs = [text] if are_comparable else [text, _OTHER_TOKENS]
    axes = list(charts[0]["axes"])
    return Section(title="Learning curves", paragraphs=paragraphs, charts=charts, axes=axes)


def read_curves(path: Path) -> dict[str, dict[int, float]]:
    """Read the curves of a run as TensorBoard shows them, without replaced points."""
    if not path.is_dir():
        return {}
    # Imported here because TensorBoard takes long to load.
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # 0 keeps all points; one figure and one text are enough.
    kinds = {"scalars": 0, "images": 1, "tensors": 1, "histograms": 1, "audio": 1}
    events = EventAccumulator(str(path), size_guidance=kinds)
    # TensorBoard would warn of the points that a resumed run replaced on purpose.
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events.Reload()
    axes = {f"{part}/{name}" for part in ("train", "valid") for name in (MINUTES, TARGET_TOKENS)}
    return {
        tag: {event.step: event.value for event in events.Scalars(tag)}
        for tag in events.Tags()["scalars"]
        if tag in axes | _CURVES.keys()
    }


def mean_curve(runs: Sequence[Curves], tag: str, *, group: int, name: str) -> Series | None:
    """Return the mean of the runs at the updates that all of them have; None if there are none."""
    part = tag.split("/")[0]
    tags = (tag, f"{part}/{MINUTES}", f"{part}/{TARGET_TOKENS}")
    if not runs or any(each not in curves for curves in runs for each in tags):
        return None
    updates = sorted(set.intersection(*[set(curves[each]) for curves in runs for each in tags]))
    if not updates:
        return None
    if len(updates) > _MAX_POINTS:
        last = len(updates) - 1
        updates = [updates[k * last // (_MAX_POINTS - 1)] for k in range(_MAX_POINTS)]
    values, minutes, tokens = (
        [[curves[each][update] for curves in runs] for update in updates] for each in tags
    )
    several = len(runs) > 1
    return Series(
        group,
        name,
        x={
            "Updates": [float(update) for update in updates],
            "Minutes": list(map(fmean, minutes)),
            "Target tokens": list(map(fmean, tokens)),
        },
        y=list(map(fmean, values)),
        low=list(map(min, values)) if several else (),
        high=list(map(max, values)) if several else (),
        hints=[f"{min(each):.4g} to {max(each):.4g}" for each in values] if several else (),
    )


def learning_section(groups: Sequence[Group]) -> Section:
    """Return the section with the moments at which attention and BLEU rise; empty without AER."""
    title = "When it learns to look"
    names = known_measures(groups, MOMENTS)
    if "aligned_at" not in names:
        return Section(title=title)
    text = (
        "On the validation set, attention is aligned at the first validation with a lower AER "
        "than the diagonal, which links the words in their order. Half BLEU is reached at the "
        "first validation with half of the best validation BLEU of all runs. Both are only as "
        "exact as the number of updates between two validations. The AERs in the table are "
        "measured on "
        "the test set, and validation BLEU at the best checkpoint."
    )
    beside = known_measures(groups, ("aer", "valid_bleu"))
    table = Table.of(
        "Updates: from the earliest to the latest run, and scores at the end",
        groups,
        GROUP,
        measure_columns(names, moment),
        measure_columns(beside),
    )
    return Section(title=title, paragraphs=[text], tables=[table])


def attention_section(groups: Sequence[Group], agreement: Divergences) -> Section:
    """Return the tables and charts of attention on the test set; empty without attention.

    Args:
        groups: The groups.
        agreement: How much the attention of every two runs differs, where it is known.
    """
    known = known_measures(groups, _OF_ATTENTION)
    if not known:
        return Section(title="Attention")
    caption = "Attention of each group: all heads, mean \xb1 standard deviation over the runs"
    of_groups = Table.of(caption, groups, GROUP, measure_columns([*known, "bleu"]))
    of_heads = Table.of(
        "Attention of each head",
        [head for group in groups for head in _heads(group)],
        text_column("Group", attrgetter("group.label")),
        text_column("Run", attrgetter("run.name")),
        number_column("Head", attrgetter("number")),
        measure_columns(
            _OF_ATTENTION, lambda head, name: number_cell(head.measures.get(name), ".3f")
        ),
        is_folded=True,
    )
    text = (
        "Attention to the sources of the test set while the references are read. Entropy is low "
        "and sharpness is high where a target token looks at few source tokens; coverage is 1 "
        "where no source token is left out. AER compares the most attended words, by the mean of "
        "the heads, with the gold links, if there are any; 0 is perfect. The numbers of heads are "
        "arbitrary: head 1 of one seed need not resemble head 1 of another."
    )
    compared = [group for group in groups if agreement and any(run.maps for run in group.runs)]
    bits = "Jensen-Shannon divergence of the attention of two runs: bits from 0 (equal)"
    links = "AER of a run's links against another run's: from 0 (equal)"
    tables = [
        of_groups,
        _agreement_table(bits, compared, agreement),
        _agreement_table(links, compared, link_errors(agreement)),
        of_heads,
    ]
    return Section(
        title="Attention",
        paragraphs=[text],
        charts=_attention_charts(groups),
        tables=[table for table in tables if table.rows],
    )


def _agreement_table(caption: str, groups: Sequence[Group], found: Divergences) -> Table:
    """Return the mean divergence between the runs of every two groups."""

    def cells(group: Group) -> list[Cell]:
        return [number_cell(mean_divergence(found, group, other), ".3f") for other in groups]

    columns = [Column(group.label) for group in groups]
    caption = f"{caption} to 1; the diagonal compares the seeds of a group"
    return Table.of(caption, groups, GROUP, (columns, cells))


def _attention_charts(groups: Sequence[Group]) -> list[Chart]:
    """Return a chart with a point for each run, and one with a point for each head."""
    runs = [[(run.measures, group.name_of(run)) for run in group.runs] for group in groups]
    heads = [
        [(head.measures, f"{head.run.name}, head {head.number}") for head in _heads(group)]
        for group in groups
    ]
    has_aer = any("aer" in measures for of_group in heads for measures, _ in of_group)
    charts = []
    for what, points, x, y in (
        ("run", runs, "aer", "bleu"),
        ("head of each run", heads, "entropy", "aer" if has_aer else "sharpness"),
    ):
        x_label, y_label = RUN_MEASURES[x].title, RUN_MEASURES[y].title
        series = []
        for index, of_group in enumerate(points):
            if known := [(each[x], each[y], hint) for each, hint in of_group if {x, y} <= {*each}]:
                xs, ys, hints = zip(*known, strict=True)
                label = groups[index].label
                series.append(Series(index, label, x={x_label: xs}, y=ys, hints=hints))
        if series:
            title = f"{x_label} and {y_label}: a point for each {what}"
            charts.append(draw_chart(title, y_label, "points", series))
    return charts


class _Head(NamedTuple):
    """A head of a run."""

    group: Group
    run: StudyRun
    number: int
    """Number of the head, from 1."""
    measures: dict[str, float]


def _heads(group: Group) -> list[_Head]:
    """Return each head of each run."""
    return [
        _Head(group, run, number, found)
        for run in group.runs
        for number, found in enumerate(run.heads, start=1)
    ]


def bleu_by_length(
    groups: Sequence[Group], limits: Sequence[int | str], notes: list[str]
) -> list[LengthScore]:
    """Return the BLEU of each group on the test sentences of each range of source length.

    Args:
        groups: The groups; only those with the test set of the first group are scored.
        limits: Upper limits of the ranges; none for about the same number of sentences in each.
        notes: Gets a line if the sources are not known.
    """
    members = [groups[i] for i in groups_with_first_test_set(groups)]
    if not members:
        return []
    try:
        sources, _ = members[0].runs[0].directory.read_texts("test", ("src", "ref"))
    except USER_ERRORS as error:
        notes.append(f"BLEU by source length is not shown: {describe_error(error)}.")
        return []
    lengths, unit = text_lengths(sources)
    if unit != "words":
        notes.append(
            f"The sources have hardly any spaces, so source lengths are counted in {unit}."
        )
    bins = bins_at(limits) if limits else equal_bins(lengths, num_bins=_NUM_LENGTHS)
    scores: list[LengthScore] = []
    for group, each in itertools.product(members, bins):
        is_inside = np.array(list(map(each.has, lengths)))
        if not is_inside.any():
            continue
        statistics = group.statistics("bleu")[:, is_inside]
        compared = compare_groups(statistics, np.zeros_like(statistics), paired=True)
        number = statistics.shape[1]
        _, deviation = Spread.of(corpus_bleu(statistics.sum(axis=1)).tolist())
        interval = (min(max(end, 0.0), 100.0) for end in compared.interval)
        values = each.label, unit, number, compared.effect, deviation, *interval, compared.covers
        scores.append(LengthScore(group.label, *values))
    return scores


def length_section(groups: Sequence[Group], scores: Sequence[LengthScore]) -> Section:
    """Return the chart and table of BLEU by source length.

    Args:
        groups: The groups.
        scores: The result of `bleu_by_length`.
    """
    title = "BLEU by source length"
    if not scores:
        return Section(title=title)
    counts = {each.source_length: counted(each.sentences, "sentence") for each in scores}
    axis = {f"Source {scores[0].unit}": list(counts)}
    by_group = itertools.groupby(scores, attrgetter("group"))
    of_groups = {label: list(found) for label, found in by_group}
    series = []
    for index, group in enumerate(groups):
        if found := of_groups.get(group.label):
            bleu = [each.bleu for each in found]
            deviations = [each.bleu_deviation for each in found if each.bleu_deviation is not None]
            series.append(Series(index, group.label, x=axis, y=bleu, deviations=deviations))

    def cells(label: str) -> Iterator[Cell]:
        for each in of_groups[label]:
            interval = f"({each.bleu_low:.2f} to {each.bleu_high:.2f})"
            yield Cell(f"{each.bleu:.2f} {interval}", each.bleu)

    columns = [Column(f"{label} ({count})") for label, count in counts.items()]
    text = (
        "BLEU of the test sentences in ranges of their source length. Bars are standard deviations "
        "over the runs. The table has 95% intervals over seeds and sentences; the interval of a "
        "single run covers these sentences only."
    )
    table = Table.of(title, of_groups, text_column("Group", str), (columns, cells), is_folded=True)
    charts = [draw_chart(title, "BLEU", "bins", series)]
    return Section(title=title, paragraphs=[text], charts=charts, tables=[table])
