"""Score the validation sets that choose no checkpoint."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.training.evaluator import Evaluator
from seq2seq.training.monitoring.tensorboard import TensorBoard
from seq2seq.training.preparation import EvaluationSet

logger = logging.getLogger(__name__)


class OtherSets:
    """Validation sets by name, scored at each validation beside the one that chooses."""

    def __init__(self, evaluator: Evaluator, sets: Mapping[str, EvaluationSet]) -> None:
        """Score like an evaluator, on other sets."""
        self._evaluators = {
            name: replace(evaluator, data=data, num_samples=0) for name, data in sets.items()
        }

    def score(self, model: Seq2Seq, board: TensorBoard, *, update: int) -> None:
        """Log the scores of a model on each set, and add them to the curves."""
        for name, evaluator in self._evaluators.items():
            evaluation = evaluator.evaluate(model, ter=False)
            logger.info(
                "update %d, valid.%s perplexity %.2f, BLEU %.1f, chrF %.1f",
                update,
                name,
                evaluation.perplexity,
                evaluation.scores.bleu,
                evaluation.scores.chrf,
            )
            board.other_validation(name, evaluation, update=update)
