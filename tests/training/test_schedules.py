"""Learning rates and teacher forcing ratios follow their definitions."""

import itertools
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
def test_every_schedule_warms_up_linearly(name):
    factors = [factor(schedule(name.value), update=update) for update in (1, 2, 3, 4)]

    assert factors == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("name", list(ScheduleName))
def test_every_schedule_starts_at_the_highest_rate_without_warm_up(name):
    assert factor(schedule(name.value, warmup=0), update=1) == 1.0


@pytest.mark.parametrize(("update", "expected"), [(4, 1.0), (16, 0.5), (100, 0.2)])
def test_inverse_square_root_falls_from_the_end_of_the_warm_up_and_constant_stays(update, expected):
    assert factor(schedule("inverse_square_root"), update=update) == expected
    assert factor(schedule("constant"), update=update, progress=0.99, plateaus=3) == 1.0


def test_cosine_falls_over_the_budget_to_the_minimum():
    config = schedule("cosine", minimum=0.2)

    values = [factor(config, update=9, progress=share) for share in (0.0, 0.25, 0.5, 1.0, 1.5)]

    quarter = 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2
    assert values == pytest.approx([1.0, quarter, 0.6, 0.2, 0.2])


def test_plateau_halves_each_time_down_to_the_minimum():
    config = schedule("plateau", minimum=0.2)

    assert [factor(config, update=9, plateaus=n) for n in (0, 1, 2, 3)] == [1.0, 0.5, 0.25, 0.2]


@pytest.mark.parametrize(
    ("name", "expected"), [("constant", [0.9] * 4), ("linear", [0.9, 0.6, 0.3, 0.3])]
)
def test_forcing_is_constant_or_changes_evenly_and_stays_at_its_end(name, expected):
    config = forcing(name)

    ratios = [teacher_forcing_ratio(config, update=update) for update in (0, 5, 10, 99)]

    assert ratios == pytest.approx(expected)


def test_exponential_forcing_falls_by_the_same_factor_each_update():
    config = forcing("exponential", start=1.0, end=0.0)

    ratios = [teacher_forcing_ratio(config, update=update) for update in range(11)]

    assert ratios[0] == 1.0
    assert ratios[10] == pytest.approx(0.01)
    factors = [after / before for before, after in itertools.pairwise(ratios)]
    assert factors == pytest.approx([factors[0]] * 10)


def test_inverse_sigmoid_forcing_is_halfway_in_the_middle():
    config = forcing("inverse_sigmoid")

    ratios = [teacher_forcing_ratio(config, update=update) for update in (0, 5, 10)]

    assert ratios[1] == pytest.approx(0.6)
    assert ratios[0] == pytest.approx(0.9, abs=0.006)
    assert ratios[2] == pytest.approx(0.3, abs=0.006)
    assert ratios[0] + ratios[2] == pytest.approx(1.2)


@pytest.mark.parametrize("unit", ["token", "batch"])
def test_ratio_one_needs_no_mask(unit):
    config = forcing("constant", start=1.0, unit=unit)

    assert draw_forced_mask(config, update=3, shape=torch.Size((2, 3)), device=CPU) is None


def test_the_share_of_forced_tokens_is_the_ratio():
    torch.manual_seed(1)

    mask = draw_forced_mask(forcing("linear"), update=5, shape=torch.Size((300, 100)), device=CPU)

    assert mask is not None
    assert mask.dtype == torch.bool
    assert mask.float().mean().item() == pytest.approx(0.6, abs=0.02)


def test_the_share_of_forced_batches_is_the_ratio():
    torch.manual_seed(1)
    config = forcing("constant", start=0.7, unit="batch")

    masks = [
        draw_forced_mask(config, update=1, shape=torch.Size((2, 3)), device=CPU)
        for _ in range(1000)
    ]

    assert all(mask is None or not mask.any() for mask in masks)
    assert sum(mask is None for mask in masks) / 1000 == pytest.approx(0.7, abs=0.05)
