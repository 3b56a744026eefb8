"""What changes over a training: the learning rate and the teacher forcing ratio."""

import math

import torch
from torch import Tensor

from seq2seq.config.training import (
    ScheduleConfig,
    ScheduleName,
    TeacherForcingConfig,
    TeacherForcingSchedule,
    TeacherForcingUnit,
)


def learning_rate_factor(
    config: ScheduleConfig, *, update: int, progress: float, plateaus: int
) -> float:
    """Return what the highest learning rate is multiplied by.

    Args:
        config: the schedule.
        update: the update to be made, from 1.
        progress: the share of the budget used so far, 0 to 1.
        plateaus: how often validation has stood still so far.
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
    """Return with which probability the true token is fed (Bengio et al. 2015, section 2.4).

    Every schedule but the constant starts at `start` and reaches `end`, exponential and inverse
    sigmoid within 1% of the way, after `config.updates`.
    """
    share = min(update / config.updates, 1.0)
    if config.schedule is TeacherForcingSchedule.constant:
        return config.start
    if config.schedule is TeacherForcingSchedule.linear:
        left = 1 - share
    elif config.schedule is TeacherForcingSchedule.exponential:
        left = 0.01**share
    else:
        # k / (k + exp(i / k)) with its middle in the middle; 10 logits from end to end.
        left = 1 / (1 + math.exp(10 * (share - 0.5)))
    return config.end + (config.start - config.end) * left


def draw_forced_mask(
    config: TeacherForcingConfig, *, update: int, shape: torch.Size, device: torch.device
) -> Tensor | None:
    """Draw from torch's generator where the true token is fed, (B, T); None feeds it everywhere."""
    ratio = teacher_forcing_ratio(config, update=update)
    if ratio >= 1:
        return None
    if config.unit is TeacherForcingUnit.batch:
        forced = torch.rand(()).item() < ratio
        return None if forced else torch.zeros(shape, dtype=torch.bool, device=device)
    return torch.rand(shape, device=device) < ratio
