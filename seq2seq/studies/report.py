"""The report of a study: results in words and tables, charts, translations, and what is missing."""

from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from seq2seq.checks import counted
from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.significance import LEVEL, p_text
from seq2seq.studies.agreement import Divergences
from seq2seq.studies.charts import (
    LengthScore,
    attention_section,
    curves_section,
    learning_section,
    length_section,
)
from seq2seq.studies.comparison import (
    DIFFERENCE,
    GROUP,
    ON_PAGE,
    BaselineComparison,
    Difference,
    group_table,
    measure_columns,
    moment,
    number_cell,
    spread,
    text_column,
)
from seq2seq.studies.probes import GroupLosses, attribution_section, interventions_section
from seq2seq.studies.runs import RUN_MEASURES, Group, StudyRun
from seq2seq.studies.sentences import shown_sentences
from seq2seq.visualization.page import Cell, Column, Section, StudyPage, Table

_LOCAL = ("data.cache_dir",)
"""Keys that describe the machine, not the study."""


class Study(NamedTuple):
    """The runs of a study, and what a comparison of them finds."""

    runs: Sequence[StudyRun]
    comparisons: Sequence[BaselineComparison]
    """Comparison of each group with the baseline."""
    agreement: Divergences
    """Divergence of the attention of each pair of runs."""
    losses: Sequence[GroupLosses]
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
    missing = list(not_compared(study))
    curves = curves_section(groups, missing)
    sentences = shown_sentences(groups, missing)
    translations = Section(title="Translations", has_sentences=True)
    if sentences:
        translations.paragraphs = [
            "Test sentences of all lengths, the sentences whose translations differ most between "
            "the groups or from the reference, and those with the highest AER. The run of each "
            "group with the best validation score has translated them. Point at a token, or reach "
            "it with Tab and the arrow keys, to see what it looked at or what looked at it."
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


def answers_section(
    comparisons: Sequence[BaselineComparison], losses: Sequence[GroupLosses]
) -> Section:
    """Return the results of each group beside its baseline; empty without a comparison.

    Args:
        comparisons: The groups, with the differences in measures and in attention.
        losses: The losses of each group under each intervention.
    """
    if all(each.result is None for each in comparisons):
        return Section(title="Answers")
    uniform = {row.label: row.losses for row in losses if row.intervention == "uniform"}

    columns = [
        Column("Different BLEU?", hint="test BLEU minus the BLEU of the baseline"),
        Column("Different attention?", hint="divergence from the baseline, in bits per token"),
        Column("Do its weights matter?", hint="BLEU lost with uniform weights"),
        Column("Aligned at update", hint="first update with a lower AER than the diagonal"),
        Column("Valid for", is_numeric=False, hint="what the answers can be generalized to"),
    ]

    def answers(compared: BaselineComparison) -> list[Cell]:
        lost = uniform.get(compared.label, {}).get("bleu_lost")
        known = compared.result or lost
        return [
            _bleu(compared),
            _attention(compared),
            _matters(lost),
            moment(compared.group, "aligned_at"),
            Cell("-" if known is None else known.covers),
        ]

    text = (
        f"Yes means that p is below {LEVEL} after Holm's correction. Not shown means that p is "
        f"{LEVEL} or more, which does not prove that there is no difference. Intervals are at the "
        "corrected level. Attention counts as different if it diverges more between the group and "
        "the baseline than between two seeds of one group; this test covers seeds only."
    )
    table = Table.of("Each group beside its baseline", comparisons, GROUP, (columns, answers))
    details = [
        (each.label, MEASURES[name], found)
        for each in comparisons
        for name, found in each.measures.items()
    ]
    every = Table.of(
        "Differences from the baseline: every measure",
        details,
        text_column("Group", itemgetter(0)),
        text_column("Measure", lambda detail: detail[1].title),
        (DIFFERENCE, lambda detail: detail[2].cells(f"+{detail[1].form}")),
        is_folded=True,
    )
    return Section(
        title="Answers", paragraphs=[text], tables=[table, every] if details else [table]
    )


def _answer(p_value: float) -> str:
    return "yes" if p_value < LEVEL else "not shown"


def _bleu(compared: BaselineComparison) -> Cell:
    if compared.result is None:
        return Cell("-" if compared.reason else "baseline")
    return Difference.of(compared.result).cell("+.2f", _answer(compared.result.p_corrected))


def _attention(compared: BaselineComparison) -> Cell:
    """Return a cell with the divergence from the baseline and between the group's own seeds."""
    found = compared.attention
    if found is None:
        return Cell("-")
    answer = f"needs {found.agreement_seeds_needed} seeds"
    if found.agreement_p is not None:
        answer = f"{_answer(found.agreement_p)} (p {p_text(found.agreement_p)})"
    between, within = found.agreement_between, found.agreement_within
    return Cell(f"{answer}: {between:.3f}, own seeds {within:.3f}", between)


def _matters(lost: Difference | None) -> Cell:
    if lost is None:
        return Cell("-")
    answer = "nothing changes" if lost.p_value is None else _answer(lost.p_value)
    return lost.cell(".2f", answer)


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
    names = [name for name in RUN_MEASURES if any(name in run.measures for run in runs)]
    keys = [Column(key, is_numeric=False) for key in runs[0].swept]

    def measure(run: StudyRun, name: str) -> Cell:
        return number_cell(run.measures.get(name), RUN_MEASURES[name].form)

    return Table.of(
        f"All runs ({len(runs)})",
        runs,
        text_column("Run", attrgetter("name")),
        (keys, lambda run: list(map(Cell, run.swept.values()))),
        measure_columns(names, measure),
        is_folded=True,
    )


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
        if key not in _LOCAL and all(config.get(key) == value for config in others)
    }
    if not shared:
        return []
    signatures = {run.signature for run in finished}
    for name, found in (("signature of BLEU", signatures), ("device", _devices(finished))):
        if len(found) == 1:
            [shared[name]] = found
    columns = text_column("Key", itemgetter(0)), text_column("Value", itemgetter(1))
    return [Table.of("Settings that all runs share", shared.items(), *columns, is_folded=True)]


def _devices(runs: Sequence[StudyRun]) -> list[str]:
    return list(dict.fromkeys(run.device for run in runs if run.device))


def not_compared(study: Study) -> Iterator[str]:
    """Say which runs failed, which seeds are missing or repeated, and what is not compared."""
    runs, groups = study.runs, study.groups
    yield from (f"{run.outcome}." for run in runs if run.failure is not None)
    seeds = sorted({run.seed for run in runs if run.seed}, key=lambda seed: (len(seed), seed))
    for group in groups:
        absent = [seed for seed in seeds if seed not in {run.seed for run in group.runs}]
        if absent:
            name = "seed" if len(absent) == 1 else "seeds"
            yield f"{group.label} has no results with {name} {', '.join(absent)}."
    for group in groups:
        if len({run.seed for run in group.runs}) < len(group.runs):
            yield (
                f"{group.label} has several runs with one seed; they count as different seeds, so "
                "its deviations, intervals and p-values may be too small."
            )
    if (number := len({tuple(run.references) for run in runs if run.references})) > 1:
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
    yield from study.notes
