"""Count the progress of a run, and compute the rates that follow from it by their schedules."""

import math
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.config.schema import (
    ScheduleConfig,
    ScheduleName,
    TeacherForcingConfig,
    TeacherForcingSchedule,
    TeacherForcingUnit,
    TrainingConfig,
)


class UpdateResult(NamedTuple):
    """Measurements of an update, over all processes."""

    losses: dict[str, tuple[float, float]]
    """Sum of each loss, and the number of its tokens."""
    gradient_norm: float
    """Norm of all gradients before clipping."""


@dataclass(kw_only=True, slots=True)
class Interval:
    """Sums over the updates since the last point of the curves."""

    updates: int = 0
    target_tokens: int = 0
    gradient_norm: float = 0.0
    overflows: int = 0
    """Number of updates whose fp16 gradients overflowed; they have no norm."""
    losses: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Sum of each loss, and the number of its tokens."""
    seconds: float = 0.0

    def means(self) -> dict[str, float]:
        """Return the mean of each loss over its tokens, if it has any."""
        return {name: total / num for name, (total, num) in self.losses.items() if num}

    @property
    def target_tokens_per_second(self) -> float:
        return self.target_tokens / self.seconds


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
    cross_entropy: float = 0.0
    """Sum of the cross-entropy over the target tokens, in nats."""
    seconds: float = 0.0
    """Seconds of training and validation."""
    update_seconds: float = 0.0
    """Seconds spent on updates and their batches, without validation."""
    plateaus: int = 0
    """Number of times that `plateau_patience` validations passed without an improvement."""
    since_best: int = 0
    """Number of validations since the last improvement; an equal value is not an improvement."""
    zero_scores: int = 0
    """Number of validations whose BLEU or chrF was too close to 0 to rank checkpoints."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(value, update) of the checkpoints to keep, best first."""
    validated_update: int = 0
    """Update of the last validation."""
    valid_fingerprint: str = ""
    """Hash of the validation corpus; empty in checkpoints without this field."""
    interval: Interval = field(default_factory=Interval)

    @property
    def best_updates(self) -> list[int]:
        """The updates of the checkpoints to keep, best first."""
        return [update for _, update in self.best]

    @property
    def epoch_share(self) -> float:
        """Share of the current epoch that is finished."""
        return self.updates_of_epoch / self.updates_per_epoch

    def continue_epoch(self, updates_per_epoch: int) -> None:
        """Set the number of updates of the current epoch; the next epoch is begun if all are made.

        A resumed run may have fewer updates in an epoch than it had before.
        """
        self.updates_per_epoch = updates_per_epoch
        if self.updates_of_epoch >= updates_per_epoch:
            self.epoch, self.updates_of_epoch = self.epoch + 1, 0

    def share(self, config: TrainingConfig) -> float:
        """Return the used share of the budget, 0 to 1."""
        shares = [0.0]
        if config.max_epochs is not None:
            shares.append((self.epoch + self.epoch_share) / config.max_epochs)
        if config.max_updates is not None:
            shares.append(self.update / config.max_updates)
        if config.max_minutes is not None:
            shares.append(self.seconds / 60 / config.max_minutes)
        return min(max(shares), 1.0)

    def is_finished(self, config: TrainingConfig) -> bool:
        """Return whether the budget is used up or validation has not improved for too long."""
        patience = config.validation.patience
        return self.share(config) >= 1 or (patience is not None and self.since_best >= patience)

    def validation_is_due(self, config: TrainingConfig) -> bool:
        """Return whether validation comes after this update."""
        every = config.validation.every_updates
        return self.updates_of_epoch == 0 if every is None else self.update % every == 0

    def count_update(self, result: UpdateResult, *, num_tokens: int, seconds: float) -> None:
        """Count an update."""
        self.update += 1
        self.updates_of_epoch += 1
        self.continue_epoch(self.updates_per_epoch)
        self.update_seconds += seconds
        self.target_tokens += num_tokens
        self.cross_entropy += result.losses["loss"][0]
        self.interval.updates += 1
        self.interval.target_tokens += num_tokens
        for name, (total, num) in result.losses.items():
            before = self.interval.losses.get(name, (0.0, 0.0))
            self.interval.losses[name] = before[0] + total, before[1] + num
        if math.isfinite(result.gradient_norm):
            self.interval.gradient_norm += result.gradient_norm
        else:
            self.interval.overflows += 1
        self.interval.seconds += seconds

    def count_validation(self, value: float, config: TrainingConfig) -> None:
        """Count a validation.

        If values are equal, the later checkpoint is the best, because it has trained longer; this
        does not count as an improvement, so that a flat metric ends the training.

        Args:
            value: Value of the metric; higher is better.
            config: Number of checkpoints to keep, and length of a plateau.
        """
        self.validated_update = self.update
        is_better = not self.best or value > self.best[0][0]
        self.since_best = 0 if is_better else self.since_best + 1
        if self.since_best and self.since_best % config.schedule.plateau_patience == 0:
            self.plateaus += 1
        ranked = sorted([*self.best, (value, self.update)], reverse=True)
        self.best = ranked[: config.validation.keep_best]

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "Progress":
        """Convert the result of `asdict` back, without the counters of other versions."""
        interval = Interval(**_known(Interval, content["interval"]))
        return Progress(**_known(Progress, {**content, "interval": interval}))


def _known(counters: type, content: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(counters)}
    return {name: value for name, value in content.items() if name in names}


def learning_rate_factor(
    config: ScheduleConfig, *, update: int, progress: float, plateaus: int
) -> float:
    """Return the factor that multiplies the highest learning rate in an update.

    Args:
        config: The schedule.
        update: Number of the update, from 1.
        progress: Share of the budget used so far, 0 to 1.
        plateaus: Number of plateaus of validation so far.
    """
    warmup = min(update / max(config.warmup_updates, 1), 1.0)
    if config.name is ScheduleName.inverse_square_root:
        return min(warmup, math.sqrt(max(config.warmup_updates, 1) / update))
    if config.name is ScheduleName.cosine:  # Loshchilov and Hutter 2017, eq. 5
        fall = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        return warmup * (config.minimum_ratio + (1 - config.minimum_ratio) * fall)
    if config.name is ScheduleName.plateau:
        return warmup * max(config.plateau_factor**plateaus, config.minimum_ratio)
    return warmup


def teacher_forcing_ratio(config: TeacherForcingConfig, *, update: int) -> float:
    """Return the probability of feeding the true token (Bengio et al. 2015, section 2.4).

    Every schedule except the constant one goes from `start` to `end` in `config.updates` updates;
    the inverse sigmoid misses both, and the exponential misses `end`, by 1% of the distance or
    less.
    """
    share = min(update / config.updates, 1.0)
    if config.schedule is TeacherForcingSchedule.constant:
        return config.start
    if config.schedule is TeacherForcingSchedule.linear:
        remaining = 1 - share
    elif config.schedule is TeacherForcingSchedule.exponential:
        remaining = 0.01**share
    else:
        # A sigmoid over 10 logits, centered on the middle of the schedule.
        remaining = 1 / (1 + math.exp(10 * (share - 0.5)))
    return config.end + (config.start - config.end) * remaining


def draw_forced_mask(
    config: TeacherForcingConfig, *, update: int, shape: torch.Size, device: torch.device
) -> Tensor | None:
    """Draw the positions where the true token is fed, from torch's generator.

    Args:
        config: The ratio's schedule, and whether tokens or whole batches are drawn.
        update: Number of the update, from 1.
        shape: Shape of the mask, (B, T).
        device: Device of the mask.

    Returns:
        (B, T) bool; True feeds the true token, False the predicted one. None feeds every true
        token.
    """
    ratio = teacher_forcing_ratio(config, update=update)
    if ratio >= 1:
        return None
    if config.unit is TeacherForcingUnit.batch:
        forced = torch.rand(()).item() < ratio
        return None if forced else torch.zeros(shape, dtype=torch.bool, device=device)
    return torch.rand(shape, device=device) < ratio
