import math

import pytest
import torch

from seq2seq.config.schema import (
    ScheduleConfig,
    ScheduleName,
    TeacherForcingConfig,
    TeacherForcingSchedule,
    TeacherForcingUnit,
)
from seq2seq.training.schedules import draw_forced_mask, learning_rate_factor, teacher_forcing_ratio

CPU = torch.device("cpu")
SHORT = 1 / (1 + math.exp(5))
"""Share of the distance that the inverse sigmoid lacks at its beginning and its end."""


def schedule(name: str, *, warmup: int = 4, minimum: float = 0.1) -> ScheduleConfig:
    return ScheduleConfig(
        name=ScheduleName(name),
        warmup_updates=warmup,
        minimum_ratio=minimum,
        plateau_factor=0.5,
        plateau_patience=2,
    )


def forcing(
    name: str, *, start: float = 0.9, end: float = 0.3, unit: str = "token"
) -> TeacherForcingConfig:
    return TeacherForcingConfig(
        unit=TeacherForcingUnit(unit),
        schedule=TeacherForcingSchedule(name),
        start=start,
        end=end,
        updates=10,
    )


def factor(config: ScheduleConfig, *, update: int, progress: float = 0.0, plateaus: int = 0):
    return learning_rate_factor(config, update=update, progress=progress, plateaus=plateaus)


@pytest.mark.parametrize("name", list(ScheduleName))
def test_every_schedule_warms_up_linearly_to_the_highest_rate(name):
    factors = [factor(schedule(name.value), update=update) for update in (1, 2, 3, 4)]

    assert factors == [0.25, 0.5, 0.75, 1.0]
    assert factor(schedule(name.value, warmup=0), update=1) == 1.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("inverse_square_root", [1.0, 0.5, 0.25, 0.2]),
        ("cosine", [1.0, 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2, 0.6, 0.2]),
        ("plateau", [1.0, 0.5, 0.25, 0.2]),
    ],
)
def test_schedules_fall_from_the_end_of_the_warm_up_to_the_minimum(name, expected):
    config = schedule(name, minimum=0.2)
    times = ((4, 0.0, 0), (16, 0.25, 1), (64, 0.5, 2), (100, 1.5, 3))

    factors = [
        factor(config, update=update, progress=progress, plateaus=plateaus)
        for update, progress, plateaus in times
    ]

    assert factors == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [0.9, 0.9, 0.9, 0.9]),
        ("linear", [0.9, 0.6, 0.3, 0.3]),
        ("exponential", [0.9, 0.3 + 0.6 * 0.1, 0.3 + 0.6 * 0.01, 0.3 + 0.6 * 0.01]),
        ("inverse_sigmoid", [0.9 - 0.6 * SHORT, 0.6, 0.3 + 0.6 * SHORT, 0.3 + 0.6 * SHORT]),
    ],
)
def test_forcing_goes_from_start_to_end_and_stays_there(name, expected):
    ratios = [teacher_forcing_ratio(forcing(name), update=update) for update in (0, 5, 10, 99)]

    assert ratios == pytest.approx(expected)


@pytest.mark.parametrize("unit", ["token", "batch"])
def test_ratio_one_needs_no_mask(unit):
    config = forcing("constant", start=1.0, unit=unit)

    assert draw_forced_mask(config, update=3, shape=torch.Size((2, 3)), device=CPU) is None


def test_the_share_of_forced_tokens_or_batches_is_the_ratio():
    torch.manual_seed(1)
    tokens = draw_forced_mask(forcing("linear"), update=5, shape=torch.Size((300, 100)), device=CPU)
    batches = [
        draw_forced_mask(forcing("linear", unit="batch"), update=5, shape=(2, 3), device=CPU)
        for _ in range(1000)
    ]

    assert tokens.dtype == torch.bool
    assert tokens.float().mean().item() == pytest.approx(0.6, abs=0.02)
    assert all(mask is None or not mask.any() for mask in batches)
    assert sum(mask is None for mask in batches) / 1000 == pytest.approx(0.6, abs=0.05)
