import math

import pytest
import torch

from seq2seq.config.schema import ScheduleConfig, ScheduleName, TeacherForcingConfig
from seq2seq.training.schedules import draw_forced_mask, learning_rate_factor, teacher_forcing_ratio

CPU = torch.device("cpu")


def schedule(name: str, *, warmup: int = 4) -> ScheduleConfig:
    return ScheduleConfig(name=ScheduleName(name), warmup_updates=warmup)


def forcing(end: float) -> TeacherForcingConfig:
    return TeacherForcingConfig(end=end, updates=10)


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
        ("cosine", [1.0, 0.01 + 0.99 * (1 + math.sqrt(0.5)) / 2, 0.505, 0.01]),
        ("plateau", [1.0, 0.5, 0.25, 0.01]),
    ],
)
def test_schedules_fall_from_the_end_of_the_warm_up_to_the_minimum(name, expected):
    config = schedule(name)
    times = ((4, 0.0, 0), (16, 0.25, 1), (64, 0.5, 2), (100, 1.5, 9))

    factors = [
        factor(config, update=update, progress=progress, plateaus=plateaus)
        for update, progress, plateaus in times
    ]

    assert factors == pytest.approx(expected)


def test_forcing_falls_linearly_from_1_to_the_end_and_stays_there():
    ratios = [teacher_forcing_ratio(forcing(0.3), update=update) for update in (0, 5, 10, 99)]

    assert ratios == pytest.approx([1.0, 0.65, 0.3, 0.3])


def test_ratio_one_needs_no_mask():
    assert draw_forced_mask(forcing(1.0), update=3, shape=torch.Size((2, 3)), device=CPU) is None


def test_the_share_of_forced_tokens_is_the_ratio():
    torch.manual_seed(1)

    forced = draw_forced_mask(forcing(0.2), update=5, shape=torch.Size((300, 100)), device=CPU)

    assert forced.dtype == torch.bool
    assert forced.float().mean().item() == pytest.approx(0.6, abs=0.02)
