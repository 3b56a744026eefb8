"""The cells and columns of a study's tables, and the table of its groups."""

import math
from collections.abc import Sequence

from seq2seq.evaluation import measures
from seq2seq.evaluation.significance import p_text
from seq2seq.studies.comparison import BaselineComparison, explain_stars
from seq2seq.studies.runs import MEASURES, Group, Spread
from seq2seq.visualization.page import Cell, Column, Table

COSTS = ("parameters", "minutes", "tokens_per_second", "best_update")
MOMENTS = ("aligned_at", "half_bleu_at")
FIRST = ("valid_bleu", "bleu")
"""Measures to the left of the comparison with the baseline."""
_LATER = [each for each in measures.MEASURES.values() if each.name != "bleu" and not each.is_detail]
ON_PAGE = (*FIRST, *(each.name for each in _LATER), *COSTS)
IN_TERMINAL = (
    *FIRST,
    *(each.name for each in _LATER if each.needs in ("translations", "links")),
    *COSTS[:-1],
)
INTERVAL_HINT = (
    "at the level of Holm's correction, so that it agrees with p; 95% for one comparison"
)
DIFFERENCE = [
    Column("Difference", hint="mean minus the mean of the baseline, of BLEU if not named"),
    Column("Interval", hint=INTERVAL_HINT),
    Column("p (Holm)", hint="of the difference, corrected over the groups"),
]


def group_table(comparisons: Sequence[BaselineComparison], shown: Sequence[str]) -> Table:
    """Return a row for each group: swept values, runs, measures and the comparison.

    Args:
        comparisons: Comparisons of all groups; at least one.
        shown: The measures to show, as far as a group has them.
    """
    groups = [each.group for each in comparisons]
    keys = list(groups[0].swept) or ["group"]
    names = known_measures(groups, shown)
    first = [name for name in names if name in FIRST]
    later = names[len(first) :]
    columns = [*(Column(key, is_numeric=False) for key in keys), Column("Runs")]
    columns += map(column, first)
    is_compared = any(each.result is not None for each in comparisons)
    if is_compared:
        columns += DIFFERENCE
    columns += map(column, later)
    rows = []
    for compared in comparisons:
        group = compared.group
        row = [Cell(value or "-") for value in group.swept.values()] or [Cell(group.label)]
        row += [Cell(str(len(group.runs)), len(group.runs))]
        row += [spread(group, name) for name in first]
        row += _comparison(compared) if is_compared else []
        rows.append([*row, *(spread(group, name) for name in later)])
    caption = "Groups: mean \xb1 standard deviation over the runs"
    caption = "; ".join([caption, *explain_stars(comparisons)])
    return Table(caption=caption, columns=columns, rows=rows)


def column(measure: str) -> Column:
    """Return the column of a measure."""
    return Column(MEASURES[measure].title, hint=MEASURES[measure].hint)


def spread(group: Group, measure: str) -> Cell:
    """Return the mean of a measure, with its standard deviation over the runs."""
    found = group.spread(measure)
    if measure in ("aer_of_diagonal", "parameters"):  # they do not depend on the seed
        found = found._replace(deviation=None)
    return number_cell(found, MEASURES[measure].form)


def moment(group: Group, name: str) -> Cell:
    """Return the first and last update of the runs; 0 is shown as "before the first validation"."""
    values = sorted(run.measures[name] for run in group.runs if name in run.measures)
    texts = [
        number_cell(value, ".0f").text if value else "before the first validation"
        for value in dict.fromkeys(values[:1] + values[-1:])
    ]
    return Cell(" to ".join(texts) or "-", number_cell(group.spread(name), ".0f").value)


def number_cell(value: Spread | float | None, form: str) -> Cell:
    """Return a number, or a mean with its standard deviation; a dash if there is none.

    Large numbers have commas. An infinite number of updates is "never".
    """
    mean, deviation = value if isinstance(value, Spread) else (value, None)
    if mean is None or math.isinf(mean):
        return Cell("-" if mean is None else "never")
    text = " \xb1 ".join(f"{each:,{form}}" for each in (mean, deviation) if each is not None)
    return Cell(text, mean)


def known_measures(groups: Sequence[Group], names: Sequence[str]) -> list[str]:
    """Return the measures that some group has; the AER of the diagonal follows the AER."""
    beside = {"aer": ("aer", "aer_of_diagonal")}
    with_diagonal = [each for name in names for each in beside.get(name, (name,))]
    return [name for name in with_diagonal if any(each.mean(name) is not None for each in groups)]


def _comparison(compared: BaselineComparison) -> list[Cell]:
    if compared.result is None:
        text = "not compared" if compared.reason else "baseline"
        return [Cell(text), Cell("-"), Cell("-")]
    found = compared.result
    return difference_cells(found.effect, *found.interval, found.p_corrected, found.covers, ".2f")


def difference_cells(
    effect: float, low: float, high: float, p_value: float, covers: str, form: str
) -> list[Cell]:
    """Return the cells of the columns `DIFFERENCE`."""
    return [
        Cell(f"{effect:+{form}}", effect),
        Cell(f"{low:+{form}} to {high:+{form}}", low),
        Cell(p_text(p_value, covers), p_value),
    ]
