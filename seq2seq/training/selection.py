"""Compare validations by the metric that chooses the best checkpoint."""

import logging

from seq2seq.config.training import Metric
from seq2seq.training.evaluator import Evaluation
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)

_LEAST_SCORES = {Metric.bleu: 1.0, Metric.chrf: 0.005}
"""Lower scores do not show which model is better: such a BLEU counts chance matches, such a chrF
prints as 0.00."""


def metric_value(evaluation: Evaluation, metric: Metric) -> float:
    """Return a number that is higher for a better evaluation.

    The negative loss replaces a BLEU below 1 and a chrF of 0.00, which do not show which model is
    better. A loss is not negative, so every other score is better.
    """
    if metric is Metric.loss:
        return -evaluation.loss
    scores = evaluation.scores
    value = scores.bleu if metric is Metric.bleu else scores.chrf
    return value if value >= _LEAST_SCORES[metric] else -evaluation.loss


def count_zero_score(progress: Progress, value: float, metric: Metric) -> None:
    """Count a validation that the loss replaced, given its `metric_value`; warn of the second."""
    if metric is Metric.loss or value > 0:
        return
    progress.zero_scores += 1
    if progress.zero_scores == 2:
        logger.warning(
            "validation %s is below %g, so the loss chooses the best checkpoint until it rises; "
            "for text without spaces, or a short training, set training.validation.metric=%s",
            metric.value,
            _LEAST_SCORES[metric],
            "chrf or loss" if metric is Metric.bleu else "loss",
        )
