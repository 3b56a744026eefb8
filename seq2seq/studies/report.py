"""The report of a study: results in words and tables, charts, translations, and what is missing."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seq2seq.checks import counted
from seq2seq.config.composition import RETIRED_KEYS, USER_ERRORS, describe_error
from seq2seq.config.serialization import load_saved_config
from seq2seq.evaluation.metrics import text_lengths
from seq2seq.inference.translator import Translator
from seq2seq.studies.agreement import Divergences
from seq2seq.studies.answers import answers_section
from seq2seq.studies.attribution import attribution_section
from seq2seq.studies.charts import (
    LengthScore,
    attention_section,
    curves_section,
    learning_section,
    length_section,
)
from seq2seq.studies.comparison import BaselineComparison, groups_with_first_test_set
from seq2seq.studies.interventions import Row, interventions_section
from seq2seq.studies.measures import sentence_numbers
from seq2seq.studies.runs import MEASURES, Group, StudyRun, describe_repeated_seeds
from seq2seq.studies.tables import ON_PAGE, column, group_table, number_cell, spread
from seq2seq.visualization.page import (
    Cell,
    Column,
    Section,
    ShownSentence,
    ShownTranslation,
    StudyPage,
    Table,
    shown_attention,
)

_LOCAL = ("data.cache_dir",)
"""Keys that describe the machine, not the study."""
NUM_SENTENCES = 12
"""Number of sentences chosen by length; sentences with the highest values of other numbers are
added."""
NUM_EXTREME = 4
_MAX_WEIGHTS = 1_500_000
"""Maximum number of weights on the page, which bounds its size; each weight takes two to four
bytes."""


class Study(NamedTuple):
    """The runs of a study, and what a comparison of them finds."""

    runs: Sequence[StudyRun]
    comparisons: Sequence[BaselineComparison]
    """Comparison of each group with the baseline."""
    agreement: Divergences
    """Divergence of the attention of each pair of runs."""
    losses: Sequence[Row]
    """The losses of each group under each intervention."""
    notes: Sequence[str]
    """Notes that say what is left out."""
    lengths: Sequence[LengthScore] = ()
    """BLEU of each group in each range of source lengths."""

    @property
    def groups(self) -> list[Group]:
        return [each.group for each in self.comparisons]


def study_page(study: Study, *, name: str) -> StudyPage:
    """Compose the report of a study with a name."""
    groups = study.groups
    missing = not_compared(study)
    curves = curves_section(groups, missing)
    sentences = shown_sentences(groups, missing)
    translations = Section(title="Translations", has_sentences=True)
    if sentences:
        translations.paragraphs = [
            "Test sentences of all lengths, and those that the groups translate most differently, "
            "farthest from the reference and with the highest AER, translated by the run of each "
            "group with the best validation score. Point at a token, or reach it with Tab and the "
            "arrow keys, to see what it looked at or what looked at it."
        ]
    last = Section(title="Not compared", items=missing)
    if not missing:
        last.paragraphs = ["All runs ended, and all of them are compared."]
    sections = [
        results_section(study),
        answers_section(study.comparisons, study.losses),
        curves,
        learning_section(groups),
        attention_section(groups, study.agreement),
        interventions_section(study.losses),
        attribution_section(groups),
        length_section(groups, study.lengths),
        translations,
        last,
    ]
    return {
        "title": f"Study {name}",
        "groups": [group.label for group in groups],
        "sections": [each for each in sections if each.paragraphs or each.items],
        "sentences": sentences,
    }


def results_section(study: Study) -> Section:
    """Return the summary in words, the table of the groups and the table of the runs."""
    runs, groups = study.runs, study.groups
    if not groups:
        return Section(title="Results", paragraphs=["No run has results."])
    num_failed = sum(run.failure is not None for run in runs)
    by = f", which differ in {', '.join(groups[0].swept)}" if groups[0].swept else ""
    failed = f"; {num_failed} without results" if num_failed else ""
    best = groups[0]
    texts = [
        f"{counted(len(runs), 'run')} in {counted(len(groups), 'group')}{by}{failed}.",
        f"Best on the validation set: {best.label}, with "
        f"{spread(best, 'valid_bleu').text} BLEU there and {spread(best, 'bleu').text} on the "
        "test set.",
        *_undertrained(groups),
    ]
    table = group_table(study.comparisons, ON_PAGE)
    tables = [table, _run_table(runs), *settings_table(runs)]
    return Section(title="Results", paragraphs=texts, tables=tables)


def _undertrained(groups: Sequence[Group]) -> Iterator[str]:
    """Say which runs were best at their last validation."""
    labels = [
        f"{group.label} ({num} of {len(group.runs)})"
        for group in groups
        if (num := sum(run.is_best_at_end for run in group.runs))
    ]
    if labels:
        yield (
            f"Best at their last validation, so longer training may score higher: "
            f"{', '.join(labels)}."
        )


def _run_table(runs: Sequence[StudyRun]) -> Table:
    measures = [name for name in MEASURES if any(name in run.measures for run in runs)]
    columns = [Column("Run", is_numeric=False)]
    columns += [Column(key, is_numeric=False) for key in runs[0].swept]
    columns += map(column, measures)
    rows = [
        [*map(Cell, (run.name, *run.swept.values()))]
        + [number_cell(run.measures.get(name), MEASURES[name].form) for name in measures]
        for run in runs
    ]
    return Table(caption=f"All runs ({len(runs)})", columns=columns, rows=rows, is_folded=True)


def settings_table(runs: Sequence[StudyRun]) -> list[Table]:
    """Return a table of the settings that are equal in all runs with results.

    Returns:
        A list with the table; empty if a run has no configuration or the runs share no setting.
    """
    finished = [run for run in runs if run.failure is None]
    first, *others = (run.config for run in finished)
    shared = {
        key: value
        for key, value in first.items()
        if key not in {*_LOCAL, *RETIRED_KEYS}
        and all(config.get(key) == value for config in others)
    }
    if not shared:
        return []
    signatures = {run.signature for run in finished}
    for name, found in (("signature of BLEU", signatures), ("device", _devices(finished))):
        if len(found) == 1:
            [shared[name]] = found
    columns = [Column("Key", is_numeric=False), Column("Value", is_numeric=False)]
    rows = [[Cell(key), Cell(value)] for key, value in shared.items()]
    caption = "Settings that all runs share"
    return [Table(caption=caption, columns=columns, rows=rows, is_folded=True)]


def _devices(runs: Sequence[StudyRun]) -> list[str]:
    return list(dict.fromkeys(run.device for run in runs if run.device))


def not_compared(study: Study) -> list[str]:
    """Say which runs failed, which seeds are missing or repeated, and what is not compared."""
    return [*_missing(study), *study.notes]


def _missing(study: Study) -> Iterator[str]:
    runs, groups = study.runs, study.groups
    yield from (f"{run.outcome}." for run in runs if run.failure is not None)
    seeds = sorted({run.seed for run in runs if run.seed}, key=lambda seed: (len(seed), seed))
    for group in groups:
        absent = [seed for seed in seeds if seed not in {run.seed for run in group.runs}]
        if absent:
            name = "seed" if len(absent) == 1 else "seeds"
            yield f"{group.label} has no results with {name} {', '.join(absent)}."
    yield from describe_repeated_seeds(groups)
    if (number := len({group.runs[0].test_set for group in groups} - {None})) > 1:
        yield (
            f"The runs have {number} different test sets, and scores on different test sets cannot "
            "be compared."
        )
    for compared in study.comparisons:
        if compared.reason:
            yield f"{compared.group.label} is not compared with a baseline: {compared.reason}."
    signatures = [run.signature for run in runs if run.signature]
    if len(set(signatures)) > 1:
        pairs = [
            f"{each} ({counted(signatures.count(each), 'run')})"
            for each in dict.fromkeys(signatures)
        ]
        yield (
            f"The scores have different signatures, so BLEU cannot be compared between them: "
            f"{'; '.join(pairs)}."
        )
    if len(found := _devices(runs)) > 1:
        yield (
            f"The runs were trained on different devices, so their times cannot be compared: "
            f"{'; '.join(found)}."
        )


def shown_sentences(groups: Sequence[Group], notes: list[str]) -> list[ShownSentence]:
    """Translate some test sentences with the best run of each group; `notes` gets what is left out.

    All groups with the test set of the first group translate.
    """
    members = groups_with_first_test_set(groups)
    try:
        [first] = [groups[i].runs[0] for i in members[:1]]
        sources, references = first.directory.read_texts("test", ("src", "ref"))
    except (ValueError, OSError):
        notes.append("No sentences are shown, because no run has kept its test.src.")
        return []
    best = [groups[i].best for i in members]
    translated = [run.translations for run in best]
    numbers = sentence_numbers(references, translated, [run.statistics for run in best])
    chosen = choose_sentences(sources, NUM_SENTENCES)
    for values in numbers.values():
        highest = sorted(range(len(sources)), key=lambda i: (-values[i], i))
        chosen += [i for i in highest[:NUM_EXTREME] if sources[i].strip()]
    lengths, unit = text_lengths(sources)
    chosen = sorted(dict.fromkeys(chosen), key=lambda i: (lengths[i], i))
    found = {}
    for index in members:
        run = groups[index].best
        try:
            translator = Translator.load(run.directory.path, device="cpu")
            decoding = load_saved_config(run.directory.config).decoding
            found[index] = translator([sources[i] for i in chosen], decoding, split="never")
        except USER_ERRORS as error:
            notes.append(f"{run.name} translates no sentences here: {describe_error(error)}.")
    sentences: list[ShownSentence] = []
    left = _MAX_WEIGHTS
    for position, line in enumerate(chosen if found else []):
        of_groups = [(index, each[position]) for index, each in found.items()]
        left -= sum(each.best.attention_weights.numel() for _, each in of_groups)
        if left < 0:
            notes.append(
                f"Sentences that are not shown, because their attention would make the page too "
                f"large: {len(chosen) - position} of {len(chosen)}."
            )
            break
        shown: list[ShownTranslation] = [
            {
                "group": index,
                "text": each.best.text,
                "attention": shown_attention(
                    each.source_tokens, each.best.tokens, each.best.attention_weights
                ),
            }
            for index, each in of_groups
        ]
        of_line = {f"Source {unit}": float(lengths[line])}
        of_line |= {name: round(values[line], 3) for name, values in numbers.items()}
        sentences.append(
            {
                "source": sources[line],
                "reference": references[line],
                "translations": shown,
                "numbers": of_line,
            }
        )
    return sentences


def choose_sentences(sources: Sequence[str], number: int) -> list[int]:
    """Choose sentences of all lengths, from the shortest to the longest.

    Example:
        >>> choose_sentences(["a b c", "a", "", "a b", "a b c d"], 2)
        [3, 4]
    """
    lengths, _ = text_lengths(sources)
    known = [i for i, length in enumerate(lengths) if length]
    ordered = sorted(known, key=lambda i: (lengths[i], i))
    number = min(number, len(ordered))
    return [ordered[(2 * k + 1) * len(ordered) // (2 * number)] for k in range(number)]
