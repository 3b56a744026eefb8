"""The counters of a run."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seq2seq.config.schema import TrainingConfig

_PLATEAU = 2
"""Number of validations without an improvement that count as a plateau."""
_LEAST_UPDATES = 20
"""Fewest updates between two validations that the budget asks for, since each takes the time of
many updates."""


class UpdateResult(NamedTuple):
    """Measurements of an update, over all processes."""

    losses: dict[str, tuple[float, float]]
    """Sum of each loss, and the number of its tokens."""
    gradient_norm: float
    """Norm of all gradients before clipping."""
    num_tokens: int
    """Number of target tokens."""
    seconds: float = 0.0
    """Seconds of the update and its batches, in this process."""


@dataclass(kw_only=True, slots=True)
class Interval:
    """Sums over some updates, for example those since the last point of the curves."""

    updates: int = 0
    target_tokens: int = 0
    gradient_norm: float = 0.0
    overflows: int = 0
    """Number of updates whose fp16 gradients overflowed; they have no norm."""
    losses: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Sum of each loss, and the number of its tokens."""
    seconds: float = 0.0

    def add(self, result: UpdateResult) -> None:
        """Add an update."""
        self.updates += 1
        self.target_tokens += result.num_tokens
        for name, (total, num) in result.losses.items():
            before = self.losses.get(name, (0.0, 0.0))
            self.losses[name] = before[0] + total, before[1] + num
        if math.isfinite(result.gradient_norm):
            self.gradient_norm += result.gradient_norm
        else:
            self.overflows += 1
        self.seconds += result.seconds

    def means(self) -> dict[str, float]:
        """Return the mean of each loss over its tokens, if it has any."""
        return {name: total / num for name, (total, num) in self.losses.items() if num}

    @property
    def target_tokens_per_second(self) -> float:
        return self.target_tokens / max(self.seconds, 1e-9)


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counters of a run since its first update."""

    update: int = 0
    """Number of updates; schedules and seeds depend on it."""
    epoch: int = 0
    """Number of finished epochs."""
    updates_of_epoch: int = 0
    """Number of updates made in the current epoch."""
    updates_per_epoch: int = 1
    """Number of all updates in the current epoch, made and to come."""
    target_tokens: int = 0
    seconds: float = 0.0
    """Seconds of training and validation."""
    update_seconds: float = 0.0
    """Seconds spent on updates and their batches, without validation."""
    plateaus: int = 0
    """Number of times that `_PLATEAU` validations passed without an improvement."""
    since_best: int = 0
    """Number of validations since the last improvement; an equal value is not an improvement."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(value, update) of the checkpoints to keep, best first."""
    dropped: list[int] = field(default_factory=list)
    """Updates of the kept checkpoints that the last validation has replaced."""
    validated_update: int = 0
    """Update of the last validation."""
    validated_tenth: int = 0
    """Number of validations that the budget had asked for at the last one."""
    interval: Interval = field(default_factory=Interval)

    @property
    def best_updates(self) -> list[int]:
        """The updates of the checkpoints to keep, best first."""
        return [update for _, update in self.best]

    @property
    def epochs(self) -> float:
        """Number of epochs so far, with the finished share of the current one."""
        return self.epoch + self.updates_of_epoch / self.updates_per_epoch

    def continue_epoch(self, updates_per_epoch: int) -> None:
        """Set the number of updates of the current epoch; if all are made, begin the next epoch.

        A resumed run may have fewer updates in an epoch than it had before.
        """
        self.updates_per_epoch = updates_per_epoch
        if self.updates_of_epoch >= updates_per_epoch:
            self.epoch, self.updates_of_epoch = self.epoch + 1, 0

    def share(self, config: TrainingConfig) -> float:
        """Return the used share of the budget, 0 to 1."""
        budgets = (
            (self.epochs, config.max_epochs),
            (self.update, config.max_updates),
            (self.seconds / 60, config.max_minutes),
        )
        return min(max(used / budget for used, budget in budgets if budget is not None), 1.0)

    def is_finished(self, config: TrainingConfig) -> bool:
        """Return whether the budget is used up or validation has not improved for too long."""
        patience = config.validation.patience
        return self.share(config) >= 1 or (patience is not None and self.since_best >= patience)

    def validation_is_due(self, config: TrainingConfig) -> bool:
        """Return whether validation comes after this update."""
        every = config.validation.every_updates
        if every is not None:
            return self.update % every == 0
        is_apart = self.update - self.validated_update >= _LEAST_UPDATES
        return is_apart and self.due_tenth(config) > self.validated_tenth

    def due_tenth(self, config: TrainingConfig) -> int:
        """Return how many validations the used budget asks for: one per tenth, in its middle."""
        return int(10 * self.share(config) + 0.5)

    def count_update(self, result: UpdateResult) -> None:
        """Count an update."""
        self.update += 1
        self.updates_of_epoch += 1
        self.continue_epoch(self.updates_per_epoch)
        self.update_seconds += result.seconds
        self.target_tokens += result.num_tokens
        self.interval.add(result)

    def count_validation(self, value: float, config: TrainingConfig) -> None:
        """Count a validation.

        If values are equal, the later checkpoint is the best, because it has trained longer; this
        does not count as an improvement, so that a flat metric ends the training.

        Args:
            value: Value of the metric; higher is better.
            config: Number of checkpoints to keep.
        """
        self.validated_update = self.update
        self.validated_tenth = self.due_tenth(config)
        is_better = not self.best or value > self.best[0][0]
        self.since_best = 0 if is_better else self.since_best + 1
        if self.since_best and self.since_best % _PLATEAU == 0:
            self.plateaus += 1
        ranked = sorted([*self.best, (value, self.update)], reverse=True)
        keep_best = config.validation.keep_best
        self.best = ranked[:keep_best]
        self.dropped = [update for _, update in ranked[keep_best:] if update != self.update]

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "Progress":
        """Convert the result of `asdict` back."""
        return Progress(**{**content, "interval": Interval(**content["interval"])})
