"""Numbers of a study as cells of tables and as text."""

from collections.abc import Sequence

from seq2seq.cli.studies.run_files import MEASURES
from seq2seq.cli.studies.runs import Group, Spread
from seq2seq.visualization.report_page import Cell, Column


def column(measure: str) -> Column:
    """Return the column of a measure."""
    return Column(MEASURES[measure].title, hint=MEASURES[measure].hint)


def number_cell(value: float | None, form: str) -> Cell:
    """Return a number; a dash if it is None."""
    return spread_cell(Spread(value, None), form)


def spread(group: Group, measure: str) -> Cell:
    """Return the mean of a measure, with its standard deviation over the runs."""
    return spread_cell(shown_spread(group, measure), MEASURES[measure].form)


def spread_cell(spread: Spread, form: str) -> Cell:
    """Return a mean, with its standard deviation if there is one; with commas in large numbers."""
    return Cell(spread_text(spread, form.replace(".0f", ",.0f")), spread.mean)


def spread_text(spread: Spread, form: str) -> str:
    """Format a mean, with its standard deviation if there is one."""
    if spread.mean is None:
        return "-"
    text = f"{spread.mean:{form}}"
    return text if spread.deviation is None else f"{text} \xb1 {spread.deviation:{form}}"


def shown_spread(group: Group, measure: str) -> Spread:
    """Return the spread of a measure; the number of parameters does not depend on the seed."""
    found = group.spread(measure)
    return found._replace(deviation=None) if measure == "parameters" else found


def known_measures(groups: Sequence[Group], measures: Sequence[str]) -> list[str]:
    """Return the measures that some group has."""
    return [name for name in measures if any(group.mean(name) is not None for group in groups)]


def in_words(values: Sequence[str]) -> str:
    """Join with commas and "and".

    Example:
        >>> in_words(["dot", "none", "local"])
        'dot, none and local'
    """
    *first, last = values
    return f"{', '.join(first)} and {last}" if first else last
