"""Schedules of a training: the learning rate, and the share of true tokens that are fed."""

import math

import torch
from torch import Tensor

from seq2seq.config.schema import ScheduleConfig, ScheduleName, TeacherForcingConfig

_LOWEST_FACTOR = 0.01
"""Lowest factor of the schedules cosine and plateau."""
_PLATEAU_FACTOR = 0.5
"""Factor that multiplies the learning rate at each plateau."""


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
        return warmup * (_LOWEST_FACTOR + (1 - _LOWEST_FACTOR) * fall)
    if config.name is ScheduleName.plateau:
        return warmup * max(_PLATEAU_FACTOR**plateaus, _LOWEST_FACTOR)
    return warmup


def dropout_factor(warmup_epochs: float, *, epochs: float) -> float:
    """Return the factor of the dropout probabilities after a number of epochs.

    The rise is linear; that of Morerio et al. 2017 ("Curriculum Dropout") is exponential. The model
    cannot overfit to sentences that it sees for the first time, so dropout only slows it down then.
    """
    return min(epochs / warmup_epochs, 1.0) if warmup_epochs else 1.0


def teacher_forcing_ratio(config: TeacherForcingConfig, *, update: int) -> float:
    """Return the probability of feeding the true token (Bengio et al. 2015, section 2.4).

    The ratio falls linearly from 1 to `config.end` in `config.updates` updates, and stays there.
    """
    return 1 - (1 - config.end) * min(update / config.updates, 1.0)


def draw_forced_mask(
    config: TeacherForcingConfig, *, update: int, shape: torch.Size, device: torch.device
) -> Tensor | None:
    """Draw the positions where the true token is fed, from torch's generator.

    Args:
        config: The curve of the ratio.
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
    return torch.rand(shape, device=device) < ratio
