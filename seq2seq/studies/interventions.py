"""The section of a report on what models lose with other attention weights."""

from collections.abc import Sequence

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.metrics import ScoringRule
from seq2seq.inference.interventions import Intervened, Intervention, intervene
from seq2seq.studies.runs import Group, Spread, StudyRun
from seq2seq.studies.tables import number_cell
from seq2seq.visualization.page import Cell, Column, Section, Table

_COLUMNS = (
    Column("Group", is_numeric=False),
    Column("Intervention", is_numeric=False),
    Column("Runs"),
    Column("BLEU lost", hint="test BLEU of the unchanged models minus that with other weights"),
    Column("Perplexity \xd7", hint="factor of the perplexity of the references"),
    Column("Changed words", hint="share of words, of both translations, that differ"),
)


def interventions_section(
    groups: Sequence[Group], interventions: Sequence[Intervention], notes: list[str]
) -> Section:
    """Translate the test set of each run with each intervention; return the table of the losses.

    A run that cannot be changed adds to `notes`, and is left out.
    """
    if not interventions:
        return Section(title="Interventions")
    rows = []
    for group in groups:
        for intervention in interventions:
            found = []
            for run in group.runs:
                try:
                    found.append(_intervene(run, intervention))
                except USER_ERRORS as error:
                    notes.append(f"{run.name} is left out: {describe_error(error)}.")
            rows.append(_row(group, intervention, found))
    text = (
        "The trained models translate the test set again with other attention weights; nothing "
        "is trained. A model that loses nothing does not need its own weights for these "
        "sentences; one that loses much was trained to read them, which does not say that "
        "another model could not do without. Numbers are means \xb1 standard deviations over the "
        "runs."
    )
    table = Table(caption="Other attention weights", columns=list(_COLUMNS), rows=rows)
    return Section(title="Interventions", paragraphs=[text], tables=[table])


def _intervene(run: StudyRun, intervention: Intervention) -> Intervened:
    sources, translations, references = run.directory.read_texts("test", ("src", "hyp", "ref"))
    return intervene(
        run.directory.path,
        intervention,
        sources=sources,
        translations=translations,
        references=references,
        rule=ScoringRule.of_signature(run.signature),
    )


def _row(group: Group, intervention: Intervention, found: Sequence[Intervened]) -> list[Cell]:
    head = "" if intervention.head is None else f":{intervention.head}"
    numbers = [
        number_cell(Spread.of([getattr(each, name) for each in found]), form)
        for name, form in (
            ("bleu_lost", ".2f"),
            ("perplexity_factor", ".2f"),
            ("changed_words", ".3f"),
        )
    ]
    texts = [Cell(group.label), Cell(f"{intervention.name}{head}")]
    return [*texts, Cell(str(len(found)), len(found)), *numbers]
