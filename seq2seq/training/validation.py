"""Validate a model in training, and keep the best checkpoints."""

import logging
from dataclasses import replace

from seq2seq.config.schema import TrainConfig
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks, check_equal_weights, share_from_first
from seq2seq.runtime.numerics import Numerics
from seq2seq.training.checkpoint_writer import CheckpointWriter
from seq2seq.training.evaluator import Evaluator
from seq2seq.training.monitoring.logger import describe_validation
from seq2seq.training.monitoring.tensorboard import TensorBoard
from seq2seq.training.preparation import PreparedData
from seq2seq.training.progress import Progress
from seq2seq.training.selection import count_zero_score, metric_value
from seq2seq.training.updates import Updater

logger = logging.getLogger(__name__)


class Validator:
    """Scores a model on the validation sets; every process takes part in it."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        data: PreparedData,
        numerics: Numerics,
        ranks: Ranks,
        writer: CheckpointWriter,
    ) -> None:
        self._config = config.training
        self._ranks = ranks
        self._writer = writer
        self.evaluator = Evaluator(
            data=data.valid,
            tokenizers=data.tokenizers,
            decoding=config.decoding.as_greedy(),
            batch_size=config.training.validation.batch_size,
            numerics=numerics,
            ranks=ranks,
            num_samples=config.training.validation.num_samples,
        )
        self._others = {
            name: replace(self.evaluator, data=other, num_samples=0)
            for name, other in data.other_valid.items()
        }

    def validate(
        self, model: Seq2Seq, updater: Updater, progress: Progress, board: TensorBoard
    ) -> None:
        """Score the model, count the validation, and keep the weights if they are among the best.

        Args:
            model: The model in training.
            updater: Its updater, which may have an average of the weights to score instead.
            progress: The counters of the run.
            board: The curves.

        Raises:
            ValueError: The processes have different weights.
        """
        check_equal_weights(model, self._ranks)
        validation = self._config.validation
        with updater.averaged_weights():
            evaluation = self.evaluator.evaluate(model, ter=False)
            logger.info("%s", describe_validation(progress, evaluation))
            board.validation(evaluation, update=progress.update)
            board.position("valid", progress)
            board.samples(
                evaluation,
                self.evaluator,
                num_samples=validation.num_samples,
                update=progress.update,
            )
            for name, evaluator in self._others.items():
                other = evaluator.evaluate(model, ter=False)
                logger.info("update %d, valid.%s %s", progress.update, name, other)
                board.other_validation(name, other, update=progress.update)
            value = metric_value(evaluation, validation.metric)
            count_zero_score(progress, value, validation.metric)
            progress.count_validation(value, self._config)
            if self._ranks.is_first:
                self._writer.keep_best(model.state_dict(), progress)
            # The first process drops checkpoints whose files are missing.
            progress.best = share_from_first(progress.best, self._ranks)
