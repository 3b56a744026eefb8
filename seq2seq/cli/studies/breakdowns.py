"""Break down the scores of a study: BLEU by source length, words by training frequency."""

from collections import Counter
from collections.abc import Mapping, Sequence

from seq2seq.cli.studies.comparison import groups_with_first_test_set, run_statistics
from seq2seq.cli.studies.formats import spread_cell
from seq2seq.cli.studies.run_files import CONFIG, REFERENCES, read_scored_lines
from seq2seq.cli.studies.runs import Group, Run, Spread
from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.config.serialization import load_saved_config
from seq2seq.data import load_corpora
from seq2seq.evaluation.bleu_tokenize import ScoringRule, build_bleu
from seq2seq.evaluation.breakdowns import (
    FREQUENCY_BINS,
    Bin,
    SplitWords,
    bleu_by_bin,
    equal_bins,
    word_scores_by_frequency,
)
from seq2seq.files.text import read_lines
from seq2seq.visualization.report_page import Cell, Chart, Column, Section, Series, Table

_NUM_LENGTHS = 5
Values = Sequence[Sequence[float | None]]
"""A value for each range of each run of a group."""


def breakdowns(groups: Sequence[Group]) -> tuple[Section, list[str]]:
    """Return the charts and tables of the breakdowns, and what could not be broken down."""
    notes = []
    members = groups_with_first_test_set(groups)
    parts = []
    if members:
        runs = groups[members[0]].runs
        sources = read_sources(runs[0])
        if sources is None:
            path = runs[0].path / "test.src"
            notes.append(f"BLEU by source length needs {path}, with a line for each reference.")
        else:
            parts.append(_by_length(groups, members, sources))
        try:
            parts.append(_by_frequency(groups, members))
        except USER_ERRORS as error:
            notes.append(f"Words are not scored by training frequency: {describe_error(error)}.")
    text = (
        "BLEU of the test sentences in ranges of their source length in words, with about equally "
        "many sentences in each, and F1 of words by their number of occurrences in the training "
        "data. Bars are standard deviations over the runs."
    )
    section = Section(
        title="Length and rare words",
        paragraphs=[text] if parts else [],
        charts=[chart for chart, _ in parts],
        tables=[table for _, table in parts],
    )
    return section, notes


def read_sources(run: Run) -> list[str] | None:
    """Return the test sentences of a run; None if the run has not kept all of them."""
    path = run.path / "test.src"
    if not path.is_file():
        return None
    sources = read_lines(path)
    return sources if len(sources) == len(read_lines(run.path / REFERENCES)) else None


def training_counts(run: Run, split: SplitWords) -> Counter[str]:
    """Count the target words of the training data that a run's configuration names.

    Raises:
        ValueError: The data are not those of the run.
        OSError: They cannot be read.
    """
    path = run.path / CONFIG
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    corpus = load_corpora(load_saved_config(path).data).train
    if not run.results.training_data.startswith(corpus.fingerprint):
        raise ValueError(f"the training data are not those that {run.name} was trained with")
    return Counter(word for pair in corpus for word in split(pair.target))


def _by_length(
    groups: Sequence[Group], members: Sequence[int], sources: Sequence[str]
) -> tuple[Chart, Table]:
    lengths = [len(source.split()) for source in sources]
    bins = equal_bins(lengths, num_bins=_NUM_LENGTHS)
    values = {
        index: [bleu_by_bin(run_statistics(run), lengths, bins) for run in groups[index].runs]
        for index in members
    }
    counts = [sum(each.has(length) for length in lengths) for each in bins]
    chart = _chart("BLEU by source length", "Source words", "BLEU", bins, values)
    heads = [f"{each.label} ({count} sentences)" for each, count in zip(bins, counts, strict=True)]
    return chart, _table("BLEU by source length in words", heads, groups, values, ".2f")


def _by_frequency(groups: Sequence[Group], members: Sequence[int]) -> tuple[Chart, Table]:
    first = groups[members[0]].runs[0]
    metric = build_bleu(
        ScoringRule.of_signature(first.results.signature), key="training.validation.bleu_tokenize"
    )

    def split(line: str) -> list[str]:
        words: list[str] = metric.tokenizer(line).split()
        return words

    frequencies = training_counts(first, split)
    bins = [Bin(*each) for each in FREQUENCY_BINS]
    scores = {
        index: [
            word_scores_by_frequency(
                *read_scored_lines(run.path), frequencies, split=split, bins=bins
            )
            for run in groups[index].runs
        ]
        for index in members
    }
    counts = [score.num_words for score in scores[members[0]][0]]
    used = [i for i, count in enumerate(counts) if count]
    bins = [bins[i] for i in used]
    values = {
        index: [[of_run[i].f1 for i in used] for of_run in of_group]
        for index, of_group in scores.items()
    }
    chart = _chart(
        "F1 of words by training frequency", "Occurrences in the training data", "F1", bins, values
    )
    heads = [f"{bins[k].label} ({counts[i]} words)" for k, i in enumerate(used)]
    caption = "F1 of words by their occurrences in the training data"
    return chart, _table(caption, heads, groups, values, ".3f")


def _chart(
    title: str, x_label: str, y_label: str, bins: Sequence[Bin], values: Mapping[int, Values]
) -> Chart:
    series = []
    for group, of_runs in values.items():
        spreads = _spreads(of_runs)
        low, high = (
            [
                None if each.mean is None else each.mean + sign * (each.deviation or 0.0)
                for each in spreads
            ]
            for sign in (-1, 1)
        )
        several = len(of_runs) > 1
        series.append(
            Series(
                group=group,
                x={"bins": [each.label for each in bins]},
                y=[each.mean for each in spreads],
                low=low if several else (),
                high=high if several else (),
            )
        )
    return Chart(title=title, x_label=x_label, y_label=y_label, kind="bins", series=series)


def _table(
    caption: str,
    heads: Sequence[str],
    groups: Sequence[Group],
    values: Mapping[int, Values],
    form: str,
) -> Table:
    rows = []
    for group, of_runs in values.items():
        cells = [spread_cell(each, form) for each in _spreads(of_runs)]
        rows.append([Cell(groups[group].label), *cells])
    columns = [Column("Group", is_numeric=False), *(Column(head) for head in heads)]
    return Table(caption=caption, columns=columns, rows=rows, is_folded=True)


def _spreads(of_runs: Values) -> list[Spread]:
    """Return the spread of each range over the runs."""
    ranges = zip(*of_runs, strict=True)
    return [Spread.of([value for value in each if value is not None]) for each in ranges]
