"""Compare validations by the metric that chooses the best checkpoint."""

import logging

from seq2seq.config.training import Metric
from seq2seq.training.evaluator import Evaluation
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)

_ZERO = 0.005
"""Scores below it print as 0.00 and count as 0."""


def metric_value(evaluation: Evaluation, metric: Metric) -> float:
    """Return a number that is higher for a better evaluation.

    A score of 0 compares nothing, so the negative loss replaces it. Scores above 0 are positive
    and losses are not negative, so every score above 0 is better than every score of 0.
    """
    if metric is Metric.loss:
        return -evaluation.loss
    scores = evaluation.scores
    value = scores.bleu if metric is Metric.bleu else scores.chrf
    return value if value >= _ZERO else -evaluation.loss


def count_zero_score(progress: Progress, value: float, metric: Metric) -> None:
    """Count a validation with a score of 0, given its `metric_value`; warn of the second one."""
    if metric is Metric.loss or value > 0:
        return
    progress.zero_scores += 1
    if progress.zero_scores == 2:
        logger.warning(
            "validation %s stays at 0, so the loss chooses the best checkpoint until it rises; for "
            "text without spaces, or a short training, set training.validation.metric=chrf or loss",
            metric.value,
        )
