"""Answer the questions of a study for each group: in a table, and measure by measure."""

from collections.abc import Iterator, Sequence

from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.significance import LEVEL, p_text
from seq2seq.studies.comparison import BaselineComparison
from seq2seq.studies.interventions import Row
from seq2seq.studies.measures import COMPARED, ENDINGS
from seq2seq.studies.tables import DIFFERENCE, difference_cells, moment
from seq2seq.visualization.page import Cell, Column, Section, Table

TITLE = "Answers"


def answers_section(comparisons: Sequence[BaselineComparison], losses: Sequence[Row]) -> Section:
    """Return what is known of each group, beside its baseline; empty without a comparison.

    Args:
        comparisons: The groups, with the columns that `compare_measures` and `add_agreement` add.
        losses: The losses of each group under each intervention.
    """
    if all(each.result is None for each in comparisons):
        return Section(title=TITLE)
    uniform = {str(row["group"]): row for row in losses if row["intervention"] == "uniform"}
    columns = [
        Column("Group", is_numeric=False),
        Column("Different BLEU?", hint="test BLEU minus the BLEU of the baseline"),
        Column("Different attention?", hint="divergence from the baseline, in bits per token"),
        Column("Do its weights matter?", hint="BLEU lost with uniform weights"),
        Column("Aligned at update", hint="first update with a lower AER than the diagonal"),
        Column("Valid for", is_numeric=False, hint="what the answers can be generalized to"),
    ]
    rows = [
        [
            Cell(each.group.label),
            _different_bleu(each),
            _different_attention(each),
            _matters(uniform.get(each.group.label)),
            moment(each.group, "aligned_at"),
            Cell(_covers(each, uniform.get(each.group.label))),
        ]
        for each in comparisons
    ]
    text = (
        f"Yes means that p is below {LEVEL} after Holm's correction. Not shown means that p is "
        "higher, which does not prove that there is no difference. Intervals are at the corrected "
        "level. The attention of a group is different if it diverges from the attention of the "
        "baseline more than the attention of two seeds diverges; this test covers seeds only."
    )
    tables = [Table(caption="Each group beside its baseline", columns=columns, rows=rows)]
    details = list(_differences(comparisons))
    if details:
        columns = [Column(name, is_numeric=False) for name in ("Group", "Measure")] + DIFFERENCE
        caption = "Differences from the baseline: every measure"
        tables.append(Table(caption=caption, columns=columns, rows=details, is_folded=True))
    return Section(title=TITLE, paragraphs=[text], tables=tables)


def _answer(p_value: float) -> str:
    return "yes" if p_value < LEVEL else "not shown"


def _different_bleu(compared: BaselineComparison) -> Cell:
    found = compared.result
    if found is None:
        return Cell("-" if compared.reason else "baseline")
    low, high = found.interval
    interval = f"{found.effect:+.2f} ({low:+.2f} to {high:+.2f})"
    return Cell(f"{_answer(found.p_corrected)}: {interval}", found.effect)


def _different_attention(compared: BaselineComparison) -> Cell:
    """Return the divergence from the baseline beside the divergence of the group's seeds."""
    columns = compared.columns
    if "agreement_between" not in columns:
        return Cell("-")
    between, within = columns["agreement_between"], columns["agreement_within"]
    answer = (
        f"{_answer(columns['agreement_p'])} (p {p_text(columns['agreement_p'])})"
        if "agreement_p" in columns
        else f"needs {columns['agreement_seeds_needed']:.0f} seeds"
    )
    return Cell(f"{answer}: {between:.3f}, own seeds {within:.3f}", between)


def _matters(row: Row | None) -> Cell:
    if row is None or "bleu_lost" not in row:
        return Cell("-")
    lost, low, high = (float(row[f"bleu_lost{end}"]) for end in ("", "_low", "_high"))
    answer = _answer(float(row["bleu_lost_p"])) if "bleu_lost_p" in row else "nothing changes"
    return Cell(f"{answer}: {lost:.2f} ({low:.2f} to {high:.2f})", lost)


def _covers(compared: BaselineComparison, row: Row | None) -> str:
    return compared.result.covers if compared.result else str((row or {}).get("p_covers", "-"))


def _differences(comparisons: Sequence[BaselineComparison]) -> Iterator[list[Cell]]:
    """Yield the difference of each measure from the baseline, its interval and p."""
    for compared in comparisons:
        if compared.result is None:
            continue
        for name in (each for each in COMPARED if f"{each}_p" in compared.columns):
            effect, low, high, p_value = (compared.columns[f"{name}_{end}"] for end in ENDINGS)
            covers, form = compared.result.covers, MEASURES[name].form
            yield [
                Cell(compared.group.label),
                Cell(MEASURES[name].title),
                *difference_cells(effect, low, high, p_value, covers, form),
            ]
