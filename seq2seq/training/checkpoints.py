"""Write the checkpoints of a run: the best, the latest and the k best."""

import contextlib
import logging
import time
from collections.abc import Iterator

from torch import Tensor

from seq2seq.checkpoints.checkpoint import (
    Checkpoint,
    TrainingState,
    load_checkpoint,
)
from seq2seq.config.schema import TrainConfig
from seq2seq.data import TokenizerPair
from seq2seq.training.progress import Progress
from seq2seq.training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_LARGEST_SHARE = 0.01
"""Of the time of training, for saving between validations."""


class CheckpointWriter:
    """Writes the checkpoints of a run into its directory."""

    def __init__(
        self, config: TrainConfig, *, tokenizers: TokenizerPair, directory: RunDirectory
    ) -> None:
        self._config = config
        self._tokenizers = tokenizers
        self._directory = directory

    def keep_best(self, model_state: dict[str, Tensor], progress: Progress) -> None:
        """Write the next best.pt and, if several are kept, step-<n>.pt.

        Args:
            model_state: The weights that were validated last.
            progress: The counters, with this validation. Checkpoints that are missing are removed
                from its best ones, with a warning. The step-<n>.pt are recorded in it.
        """
        checkpoint, directory = self._checkpoint(model_state, training_state=None), self._directory
        earlier = [update for _, update in progress.best if update != progress.update]
        for update in self._updates_to_keep(progress):
            path = directory.step(update)
            if update == progress.update:
                directory.save(path, checkpoint)
            elif not path.exists() and update == earlier[0]:
                # The run kept one checkpoint before it was resumed.
                directory.save(path, load_checkpoint(directory.best))
            elif not path.exists():
                progress.best = [each for each in progress.best if each[1] != update]
                logger.warning("%s is missing; it no longer counts as one of the best", path)
                continue
            if update not in progress.steps:
                progress.steps.append(update)
        if progress.best_update == progress.update:
            directory.save(directory.next_best(progress.update), checkpoint)

    def replace_best(self, progress: Progress) -> None:
        """Replace best.pt by the next one, when last.pt names its update.

        The next one is deleted if last.pt names another update as the best: the process was killed
        between writing the two, and the resumed run may take another course.
        """
        directory = self._directory
        for path, update in directory.next_bests():
            if progress.best and update == progress.best_update:
                directory.replace_best(path)
            else:
                directory.delete(path)

    def save_last(
        self, model_state: dict[str, Tensor], training_state: TrainingState, progress: Progress
    ) -> None:
        """Write last.pt, from which the run can be resumed, and then best.pt if it is a new one.

        step-<n>.pt that are no longer among the best are deleted last, so that a killed run has
        all checkpoints that its last.pt names.

        Args:
            model_state: The weights in training.
            training_state: The state that resuming needs.
            progress: The counters, whose best checkpoints are kept.
        """
        checkpoint = self._checkpoint(model_state, training_state=training_state)
        self._directory.save(self._directory.last, checkpoint)
        self.replace_best(progress)
        self.delete_others(progress)

    def finish_save(self, progress: Progress) -> None:
        """Do what a killed run has not done after it wrote the last.pt that is resumed."""
        self.replace_best(progress)
        if progress.best:  # otherwise they were forgotten, and last.pt still names them
            self.delete_others(progress)

    def delete_others(self, progress: Progress) -> None:
        """Delete each step-<n>.pt of the run that is not among the best checkpoints."""
        kept = self._updates_to_keep(progress)
        doomed = [update for update in progress.steps if update not in kept]
        self._directory.delete(*map(self._directory.step, doomed))
        progress.steps = [update for update in progress.steps if update in kept]

    def _updates_to_keep(self, progress: Progress) -> list[int]:
        """Return the updates of the step-<n>.pt to keep; none if best.pt is the only one kept."""
        is_alone = self._config.training.validation.keep_best == 1
        return [] if is_alone else [update for _, update in progress.best]

    def _checkpoint(
        self, model_state: dict[str, Tensor], *, training_state: TrainingState | None
    ) -> Checkpoint:
        return Checkpoint(
            config=self._config,
            tokenizers=self._tokenizers,
            model_state=model_state,
            training_state=training_state,
        )


class SaveClock:
    """Decides when last.pt is written between validations, from the time that a save takes."""

    def __init__(self, every_minutes: float | None) -> None:
        """Start the clock.

        Args:
            every_minutes: Minutes between saves; None: no save is due.
        """
        self._interval = None if every_minutes is None else 60 * every_minutes
        self._saved = time.monotonic()
        self._cost = 0.0

    def is_due(self) -> bool:
        """Return whether a save is due; a slow one is made less often, to cost 1% at most."""
        if self._interval is None:
            return False
        wait = max(self._interval, self._cost / _LARGEST_SHARE)
        return time.monotonic() - self._saved >= wait

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Measure a save in a context, and start anew."""
        started = time.monotonic()
        yield
        self._saved = time.monotonic()
        self._cost = self._saved - started
