"""The training loop: updates, curves, validations and checkpoints until the budget is used up."""

import logging
import math
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import torch

from seq2seq.checks import counted
from seq2seq.config.schema import Metric, TrainConfig
from seq2seq.data.batching import Batch, Batches, Numbers, collate
from seq2seq.inference.checkpoint import Checkpoint, TrainingState, save_checkpoint
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks, sum_over_processes
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.process import Interrupted, StopSignals
from seq2seq.search.config import GreedyConfig, convert_search
from seq2seq.training.curves import TensorBoard, open_tracker
from seq2seq.training.log import ProgressDisplay
from seq2seq.training.preparation import PreparedData
from seq2seq.training.progress import Interval, Progress, UpdateResult
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.schedules import dropout_factor, learning_rate_factor, teacher_forcing_ratio
from seq2seq.training.updates import NonFiniteError, Updater
from seq2seq.training.validation import Evaluator, metric_value

logger = logging.getLogger(__name__)


class Trainer:
    """Trains a model; every last.pt has the state that resuming needs."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        model: Seq2Seq,
        data: PreparedData,
        numerics: Numerics,
        ranks: Ranks,
        directory: RunDirectory,
    ) -> None:
        self.config = config
        self.model = model
        self.data = data
        self.numerics = numerics
        self.ranks = ranks
        self.directory = directory
        self.signals = StopSignals()
        self.progress = Progress()
        self.updater = Updater(config, model=model, numerics=numerics, ranks=ranks)
        self.batches = Batches(
            data.train,
            config=config.training.batching,
            seed=config.seed,
            rank=ranks.rank,
            world_size=ranks.world_size,
            mixture=data.mixture,
        )
        self.evaluator = Evaluator(
            data=data.sets["valid"],
            tokenizers=data.tokenizers,
            decoding=convert_search(config.decoding, GreedyConfig),
            numerics=numerics,
            ranks=ranks,
            num_samples=config.training.validation.num_samples,
            signals=self.signals,
        )
        self._began = self._saved_at = time.monotonic()

    def train(self) -> None:
        """Train until the budget is used up or validation has not improved for too long.

        Raises:
            Interrupted: A signal asked to stop; last.pt is written.
            NonFiniteError: The loss or a gradient is not finite; last.pt has not changed.
            DeviceMemoryError: A batch does not fit into the memory of a GPU; last.pt has not
                changed.
        """
        training, progress, is_first = self.config.training, self.progress, self.ranks.is_first
        if is_first:
            self._delete_steps()  # a killed process may have left some
            if not progress.is_finished(training):  # results of a smaller budget
                self.directory.results.unlink(missing_ok=True)
        self._began = time.monotonic() - progress.seconds
        first_update = progress.update + 1
        save_seconds = 60 * (training.save_every_minutes or math.inf)
        path = self.directory.tensorboard if is_first else None
        tracker = None if path is None else open_tracker(self.config, path)
        with (
            self.signals,
            TensorBoard(path, first_update=first_update, tracker=tracker) as board,
            ProgressDisplay(training, progress, quiet=not is_first) as display,
        ):
            # A signal may have stopped the validation after the last update.
            is_due = progress.update > 0 and progress.validation_is_due(training)
            if is_due and progress.validated_update < progress.update:
                self._validate(board)
            for group in self._remaining_updates():
                result, stop_signal = self._update(group)
                display.update(progress, result)
                if progress.interval.updates >= training.log_every:
                    board.updates(
                        progress,
                        learning_rate=self.updater.learning_rate,
                        teacher_forcing_ratio=teacher_forcing_ratio(
                            training.teacher_forcing, update=progress.update
                        ),
                    )
                    progress.interval = Interval()
                if stop_signal:
                    self._save_last(board)
                    raise Interrupted(stop_signal)
                if progress.validation_is_due(training):
                    self._validate(board)
                elif time.monotonic() - self._saved_at >= save_seconds:
                    self._save_last(board)
            if progress.validated_update < progress.update:
                self._validate(board)
            late_signal = self.ranks.share_from_first(self.signals.received)
            if late_signal:
                raise Interrupted(late_signal)
        progress.seconds = self._seconds_so_far()
        self._log_end(first_update)

    def _remaining_updates(self) -> Iterator[list[Numbers]]:
        """Yield the rows of each batch of each update until the run is finished."""
        progress, training = self.progress, self.config.training
        while not progress.is_finished(training):
            groups = self.groups_of_epoch()
            progress.continue_epoch(len(groups))
            for group in groups[progress.updates_of_epoch :]:
                yield group
                if progress.is_finished(training):
                    return

    def groups_of_epoch(self) -> list[list[Numbers]]:
        """Return the rows of each batch of each update of the current epoch."""
        batches = self.batches.epoch(self.progress.epoch)
        size = self.config.training.accumulation
        return [batches[start : start + size] for start in range(0, len(batches), size)]

    def _update(self, group: list[Numbers]) -> tuple[UpdateResult, int]:
        """Make an update; return its result, and the signal that a process received (0: none)."""
        started = time.monotonic()
        progress, training = self.progress, self.config.training
        encoded, links = self.data.train.epoch(progress.epoch), self.data.train_links
        batches = [collate(encoded, rows, links=links) for rows in group]
        num_tokens, run_seconds, stop_signal = self._exchange_counts(batches)
        progress.seconds = run_seconds
        update = progress.update + 1
        factor = learning_rate_factor(
            training.schedule,
            update=update,
            progress=progress.share(training),
            plateaus=progress.plateaus,
        )
        try:
            result = self.updater.update_weights(
                batches,
                update=update,
                learning_rate=training.optimizer.learning_rate * factor,
                num_tokens=num_tokens,
                dropout_factor=dropout_factor(
                    training.dropout_warmup_epochs, epochs=progress.epochs
                ),
            )
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}; {self._describe(batches)}") from error
        result = result._replace(seconds=time.monotonic() - started)
        progress.count_update(result)
        return result, stop_signal

    def _log_end(self, first_update: int) -> None:
        """Log why training ended, unless it has just made all its updates."""
        progress, training = self.progress, self.config.training
        if progress.share(training) < 1:
            logger.info(
                "stopped after update %d: %s without an improvement "
                "(training.validation.patience); best.pt is the latest checkpoint "
                "with the best score, from update %d",
                progress.update,
                counted(progress.since_best, "validation"),
                progress.best_updates[0],
            )
        elif progress.update < first_update:
            logger.info(
                "the budget is already used up; raise training.max_epochs, max_updates or "
                "max_minutes to continue the training, or start again with overwrite=true"
            )
        elif training.max_minutes and progress.seconds >= 60 * training.max_minutes:
            logger.info(
                "stopped after update %d: training.max_minutes=%s is used up",
                progress.update,
                training.max_minutes,
            )

    def _exchange_counts(self, batches: Sequence[Batch]) -> tuple[int, float, int]:
        """Return all processes' target tokens, the run's seconds and the signal of any process."""
        num_tokens = sum(batch.num_target_tokens for batch in batches)
        received = self.signals.received
        own_seconds = self._seconds_so_far() if self.ranks.is_first else 0.0
        own = (num_tokens, own_seconds, received or 0)
        shared = torch.tensor(own, dtype=torch.float64)  # on the CPU: the host needs it at once
        sum_over_processes(shared)
        all_tokens, seconds, any_signal = shared.tolist()
        return int(all_tokens), seconds, received or (signal.SIGTERM if any_signal else 0)

    def _seconds_so_far(self) -> float:
        """Return the run's seconds on the clock of this process; `progress.seconds` are shared."""
        return time.monotonic() - self._began

    def _describe(self, batches: Sequence[Batch]) -> str:
        """Describe the training pairs of a failed update, and the last checkpoint."""
        pairs = ", ".join(str(i + 1) for batch in batches for i in batch.indices.tolist())
        first = self.data.tokenizers.source.decode(batches[0].source_ids[0].tolist())
        last = self.directory.last
        kept = f"{last} is not affected" if last.exists() else "no checkpoint was written yet"
        advice = "try a lower learning rate or fp32"
        return f"training pairs {pairs}, the first {first!r}; {kept}; {advice}"

    def _validate(self, board: TensorBoard) -> None:
        """Score the model, keep it if it is among the best, and write last.pt.

        If a signal stops this, last.pt is as before the validation, which a resumed run repeats.
        """
        progress = self.progress
        self.ranks.check_equal_weights(self.model)
        model = self.updater.model_to_keep
        try:
            evaluation = self.evaluator.evaluate(model, slow=False)
            others = {
                name: replace(self.evaluator, data=data, num_samples=0).evaluate(model, slow=False)
                for name, data in self.data.sets.items()
                if name.startswith("valid.")
            }
        except Interrupted:
            self._save_last(board)
            raise
        metric = self.config.training.validation.metric
        value = metric_value(evaluation, metric)
        progress.count_validation(value, self.config.training)
        logger.info(
            "update %d, epoch %.1f, %.1f min, valid %s%s",
            progress.update,
            progress.epochs,
            progress.seconds / 60,
            str(evaluation),  # the log of other ranks keeps what it gets, so not its arrays
            "; ranked by the loss" if value <= 0 and metric is not Metric.loss else "",
        )
        if self.ranks.is_first:
            self.directory.keep_best(
                self._checkpoint(model), progress.best_updates, update=progress.update
            )
            self.directory.add_validation(evaluation.scores, update=progress.update)
            board.validation(evaluation, update=progress.update)
            board.position("valid", progress)
            board.samples(evaluation, update=progress.update)
        for name, other in others.items():
            logger.info("update %d, %s %s", progress.update, name, str(other))
            board.other_validation(name, other, update=progress.update)
        progress.seconds = self.ranks.share_from_first(self._seconds_so_far())
        self._save_last(board)

    def _save_last(self, board: TensorBoard) -> None:
        if not self.ranks.is_first:
            return
        board.flush()  # a resumed run does not write earlier points again
        state: TrainingState = {
            "fingerprint": self.data.fingerprint,
            "valid_fingerprint": self.data.valid_fingerprint,
            "progress": asdict(replace(self.progress, seconds=self._seconds_so_far())),
            "updater": self.updater.state(),
        }
        save_checkpoint(self.directory.last, self._checkpoint(self.model, state))
        self._delete_steps()
        board.tracker.send()
        self._saved_at = time.monotonic()

    def _delete_steps(self) -> None:
        """Delete the checkpoints that are no longer among the best; last.pt records which."""
        keeps_several = self.config.training.validation.keep_best > 1
        self.directory.delete_steps(self.progress.dropped if keeps_several else [])

    def _checkpoint(self, model: Seq2Seq, state: TrainingState | None = None) -> Checkpoint:
        return Checkpoint(
            config=self.config,
            tokenizers=self.data.tokenizers,
            model_state=model.state_dict(),
            training_state=state,
            habits=self.data.habits,
        )
