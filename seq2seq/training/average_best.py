"""Average the best checkpoints at the end of a run, and keep the average if it is better."""

import logging
from typing import NamedTuple

from seq2seq.checkpoints.average import average_checkpoints
from seq2seq.checkpoints.checkpoint import load_checkpoint, load_checkpoints, save_checkpoint
from seq2seq.runtime.distributed import compute_in_first
from seq2seq.training.evaluator import Evaluation
from seq2seq.training.selection import metric_value
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)


class BestAverage(NamedTuple):
    """The average of the best checkpoints of a run."""

    updates: list[int]
    """Updates of the checkpoints, best first."""
    evaluation: Evaluation
    """On the validation set, with the search of the validations."""
    is_best: bool
    """Whether it is better than the best checkpoint and became best.pt."""


def average_best(trainer: Trainer) -> BestAverage | None:
    """Write the average of the kept checkpoints as average.pt and score it.

    best.pt becomes the average if that is better by the metric of the validations, and otherwise
    the best single checkpoint. It depends only on the kept checkpoints, so a run that is resumed
    after its end comes to the same files.

    Returns:
        The average, or None if none is asked for or fewer than two checkpoints were validated.
    """
    config, directory, progress = trainer.config.training, trainer.directory, trainer.progress
    updates = [update for _, update in progress.best]
    if not config.average_best or len(updates) < 2:
        return None
    steps = [directory.step(each) for each in updates]
    average = compute_in_first(lambda: average_checkpoints(load_checkpoints(steps)), trainer.ranks)
    if trainer.ranks.is_first:
        save_checkpoint(directory.average, average)
    model = average.build_model().to(trainer.numerics.device)
    evaluation = trainer.validator.evaluator.evaluate(model, ter=False)
    is_best = metric_value(evaluation, config.validation.metric) > progress.best[0][0]
    if trainer.ranks.is_first:
        best = average if is_best else load_checkpoint(directory.step(progress.best_update))
        save_checkpoint(directory.best, best)
    logger.info(
        "average of updates %s: valid %s; best.pt is %s",
        ", ".join(map(str, sorted(updates))),
        evaluation,
        "the average" if is_best else f"update {progress.best_update}",
    )
    return BestAverage(updates, evaluation, is_best)
