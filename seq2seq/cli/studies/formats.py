"""Numbers of a study as cells of tables and as text."""

from collections.abc import Sequence

from seq2seq.cli.studies.runs import MEASURES, Group
from seq2seq.visualization.report_page import Cell

NAMES = {
    "valid_bleu": "Validation BLEU",
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "perplexity": "Perplexity",
    "aer": "AER",
    "entropy": "Entropy",
    "coverage": "Coverage",
    "sharpness": "Sharpness",
    "parameters": "Parameters",
    "minutes": "Minutes",
    "tokens_per_second": "Tokens/s",
    "best_update": "Best update",
}
HINTS = {
    "valid_bleu": "of the best checkpoint on the validation set",
    "bleu": "on the test set; higher is better",
    "chrf": "on the test set; higher is better",
    "ter": "on the test set; lower is better",
    "perplexity": "of the references of the test set; lower is better",
    "aer": "alignment error rate of the attention against gold links; lower is better",
    "entropy": "of the weights of a target token, in nats",
    "coverage": "weight that a source token gets in all, at most 1",
    "sharpness": "largest weight of a target token",
    "minutes": "training and validation",
    "tokens_per_second": "target tokens per second in training",
}


def spread(group: Group, measure: str) -> Cell:
    """Return the mean of a measure, with its standard deviation over the runs."""
    mean, deviation = group.mean(measure), group.deviation(measure)
    if measure == "parameters":
        deviation = None
    return spread_cell(mean, deviation, MEASURES[measure])


def spread_cell(mean: float | None, deviation: float | None, form: str) -> Cell:
    """Return a mean with its standard deviation, if there is one."""
    if mean is None:
        return Cell("-")
    form = form.replace(".0f", ",.0f")
    text = f"{mean:{form}}"
    return Cell(text if deviation is None else f"{text} \xb1 {deviation:{form}}", mean)


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
