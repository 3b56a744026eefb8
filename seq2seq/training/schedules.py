"""Schedules of a training: the learning rate, and the share of true tokens that are fed."""

import math

import torch
from torch import Tensor

from seq2seq.config.schema import (
    ScheduleConfig,
    ScheduleName,
    TeacherForcingConfig,
    TeacherForcingSchedule,
    TeacherForcingUnit,
)


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


def dropout_factor(warmup_epochs: float, *, epochs: float) -> float:
    """Return the factor of the dropout probabilities after a number of epochs.

    The rise is linear; that of Morerio et al. 2017 ("Curriculum Dropout") is exponential. The model
    cannot overfit to sentences that it sees for the first time, so dropout only slows it down then.
    """
    return min(epochs / warmup_epochs, 1.0) if warmup_epochs else 1.0


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
