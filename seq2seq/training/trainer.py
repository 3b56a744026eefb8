"""The training loop: updates, curves, validations and checkpoints until the budget is used up."""

import logging
import signal
import time
from collections.abc import Iterator, Sequence

import torch

from seq2seq.checkpoints.checkpoint import TrainingState
from seq2seq.config.schema import TrainConfig
from seq2seq.data import Batch, Batches, collate
from seq2seq.data.id_rows import Numbers
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks, share_from_first, sum_over_processes
from seq2seq.runtime.interrupts import Interrupted, StopSignals
from seq2seq.runtime.numerics import Numerics
from seq2seq.training.checkpoint_writer import CheckpointWriter, SaveClock
from seq2seq.training.monitoring.progress_display import ProgressDisplay
from seq2seq.training.monitoring.tensorboard import TensorBoard
from seq2seq.training.preparation import PreparedData
from seq2seq.training.progress import Interval, Progress
from seq2seq.training.resume_changes import check_same_data, forget_best
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.schedules import learning_rate_factor, teacher_forcing_ratio
from seq2seq.training.updates import NonFiniteError, Updater
from seq2seq.training.validation import Validator

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
        self.progress = Progress(valid_fingerprint=data.valid_fingerprint)
        self.updater = Updater(config, model=model, numerics=numerics, ranks=ranks)
        self.batches = Batches(
            data.train,
            config=config.training.batching,
            seed=config.seed,
            rank=ranks.rank,
            world_size=ranks.world_size,
            mixture=data.mixture,
        )
        self.writer = CheckpointWriter(config, tokenizers=data.tokenizers, directory=directory)
        self.validator = Validator(
            config, data=data, numerics=numerics, ranks=ranks, writer=self.writer
        )
        self._clock = time.monotonic()
        self._save_clock = SaveClock(config.training.save_every_minutes)

    def train(self) -> None:
        """Train until the budget is used up or validation has not improved for too long.

        Raises:
            Interrupted: A signal asked to stop; last.pt is written.
            NonFiniteError: The loss or a gradient is not finite; last.pt has not changed.
            DeviceMemoryError: A batch does not fit into the memory of a GPU; last.pt has not
                changed.
        """
        if self.ranks.is_first:
            self.writer.replace_best(self.progress)  # a killed run may have left the next one
        self._clock = time.monotonic()
        updates_before = self.progress.update
        with StopSignals() as signals, self._open_board() as board, self._display() as display:
            for group, updates_per_epoch in self._remaining_updates():
                stop_signal = self._update(group, updates_per_epoch, signals)
                display.update(self.progress, updates_per_epoch=updates_per_epoch)
                self._add_point(board)
                if self.progress.validation_is_due(self.config.training):
                    self._validate(board)
                elif stop_signal or self._save_clock.is_due():
                    self._save_last(board)
                if stop_signal:
                    raise Interrupted(stop_signal)
            if self.progress.validated_update < self.progress.update:
                self._validate(board)
            elif self.ranks.is_first:  # a run killed after its last save has not deleted them
                self.writer.delete_others(self.progress)
            late_signal = share_from_first(signals.received, self.ranks)
            if late_signal:
                raise Interrupted(late_signal)
        self._log_end(updates_before)

    def load_state(self, state: TrainingState, *, saved: TrainConfig) -> None:
        """Continue from the state of a last.pt; the weights of the model are loaded separately.

        Args:
            state: The state.
            saved: The configuration of the last.pt.

        Raises:
            ValueError: The training data have changed.
        """
        check_same_data(
            self.config, state["fingerprint"], self.data.fingerprint, last=self.directory.last
        )
        self.progress = Progress.from_dict(state["progress"])
        forget_best(self.progress, saved, self.config, self.data.valid_fingerprint)
        self.updater.load_state(state["updater"])
        progress, updates_per_epoch = self.progress, len(self._groups_of_epoch())
        # Another number of processes, or of accumulated batches, makes other updates per epoch.
        if progress.updates_of_epoch >= updates_per_epoch:
            progress.epoch, progress.updates_of_epoch = progress.epoch + 1, 0
        progress.epoch_share = progress.updates_of_epoch / updates_per_epoch

    def _remaining_updates(self) -> Iterator[tuple[list[Numbers], int]]:
        """Yield the batches of each update and the number of updates in its epoch."""
        while not self.progress.is_finished(self.config.training):
            groups = self._groups_of_epoch()
            for group in groups[self.progress.updates_of_epoch :]:
                yield group, len(groups)
                if self.progress.is_finished(self.config.training):
                    return

    def _groups_of_epoch(self) -> list[list[Numbers]]:
        """Return the rows of each batch of each update of the current epoch."""
        batches = self.batches.epoch(self.progress.epoch)
        size = self.config.training.accumulation
        return [batches[start : start + size] for start in range(0, len(batches), size)]

    def _update(self, group: list[Numbers], updates_per_epoch: int, signals: StopSignals) -> int:
        """Make an update; return the signal that any process received, or 0."""
        started = time.monotonic()
        progress, training = self.progress, self.config.training
        encoded, links = self.data.train.epoch(progress.epoch), self.data.train_links
        batches = [collate(encoded, rows, links=links) for rows in group]
        num_tokens, progress.seconds, stop_signal = self._exchange(batches, signals)
        factor = learning_rate_factor(
            training.schedule,
            update=progress.update + 1,
            progress=progress.share(training),
            plateaus=progress.plateaus,
        )
        try:
            result = self.updater.make(
                batches,
                update=progress.update + 1,
                learning_rate=training.optimizer.learning_rate * factor,
                num_tokens=num_tokens,
            )
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}; {self._describe(batches)}") from error
        progress.count_update(
            result,
            num_tokens=num_tokens,
            seconds=time.monotonic() - started,
            updates_per_epoch=updates_per_epoch,
        )
        return stop_signal

    def _log_end(self, updates_before: int) -> None:
        """Log why training ended, unless it has just used up its budget."""
        progress, training = self.progress, self.config.training
        if progress.share(training) < 1:
            logger.info(
                "stopped after update %d: %d validations without an improvement "
                "(training.validation.patience); the best was after update %d",
                progress.update,
                progress.since_best,
                progress.best_update,
            )
        elif progress.update == updates_before:
            logger.info(
                "the budget was used up already; a larger training.max_epochs, max_updates or "
                "max_minutes would train on"
            )

    def _exchange(self, batches: Sequence[Batch], signals: StopSignals) -> tuple[int, float, int]:
        """Return all processes' target tokens, the run's seconds and the signal of any process."""
        now = time.monotonic()
        seconds = self.progress.seconds + now - self._clock
        self._clock = now
        num_tokens = sum(batch.num_target_tokens for batch in batches)
        own = (num_tokens, seconds if self.ranks.is_first else 0.0, signals.received or 0)
        shared = torch.tensor(own, dtype=torch.float64)  # on the CPU: the host needs it at once
        sum_over_processes([shared])
        all_tokens, seconds, any_signal = shared.tolist()
        return int(all_tokens), seconds, signals.received or (signal.SIGTERM if any_signal else 0)

    def _describe(self, batches: Sequence[Batch]) -> str:
        """Describe the training pairs of a failed update, and the last checkpoint."""
        pairs = ", ".join(str(i + 1) for batch in batches for i in batch.indices.tolist())
        first = self.data.tokenizers.source.decode(batches[0].source_ids[0].tolist())
        last = self.directory.last
        kept = f"{last} is not affected" if last.exists() else "no checkpoint was written yet"
        advice = "try a lower learning rate or fp32"
        return f"training pairs {pairs}, the first {first!r}; {kept}; {advice}"

    def _add_point(self, board: TensorBoard) -> None:
        """Add a point to the curves every `log_every` updates."""
        progress, training = self.progress, self.config.training
        interval = progress.interval
        if interval.updates < training.log_every:
            return
        board.updates(
            interval,
            learning_rate=self.updater.learning_rate,
            teacher_forcing_ratio=teacher_forcing_ratio(
                training.teacher_forcing, update=progress.update
            ),
            update=progress.update,
        )
        board.position("train", progress)
        progress.interval = Interval()

    def _validate(self, board: TensorBoard) -> None:
        """Score the model, keep it if it is among the best, and write last.pt."""
        self.validator.validate(self.model, self.updater, self.progress, board)
        self._save_last(board)

    def _save_last(self, board: TensorBoard) -> None:
        if not self.ranks.is_first:
            return
        with self._save_clock.saving():
            board.flush()  # a resumed run draws no earlier points
            state: TrainingState = {
                "fingerprint": self.data.fingerprint,
                "progress": self.progress.to_dict(),
                "updater": self.updater.state(),
            }
            self.writer.save_last(self.model.state_dict(), state, self.progress)

    def _open_board(self) -> TensorBoard:
        path = self.directory.tensorboard if self.ranks.is_first else None
        return TensorBoard(path, first_update=self.progress.update + 1)

    def _display(self) -> ProgressDisplay:
        training = self.config.training
        return ProgressDisplay(training, self.progress, quiet=not self.ranks.is_first)
