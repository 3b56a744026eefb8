import dataclasses
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
    TrainingConfig,
    load_config,
)
from seq2seq.training.progress import (
    Progress,
    UpdateResult,
    draw_forced_mask,
    learning_rate_factor,
    teacher_forcing_ratio,
)

RESULT = UpdateResult({"loss": (6.0, 7.0), "guided_attention_loss": (1.5, 2.0)}, gradient_norm=0.5)


def training(
    *, keep_best: int = 1, patience: int | None = None, plateau: int = 2, **budget: float | None
) -> TrainingConfig:
    config = load_config().training
    return dataclasses.replace(
        config,
        **{"max_epochs": None, "max_updates": None, "max_minutes": None, **budget},
        validation=dataclasses.replace(config.validation, keep_best=keep_best, patience=patience),
        schedule=dataclasses.replace(config.schedule, plateau_patience=plateau),
    )


def after(updates: int, *, updates_per_epoch: int = 5) -> Progress:
    progress = Progress(updates_per_epoch=updates_per_epoch)
    for _ in range(updates):
        progress.count_update(RESULT, num_tokens=7, seconds=0.25)
    return progress


def test_an_fp16_overflow_has_no_norm():
    progress = Progress()
    for norm in (0.5, math.inf, math.nan, 1.5):
        result = RESULT._replace(gradient_norm=norm)
        progress.count_update(result, num_tokens=7, seconds=0.25)

    interval = progress.interval
    assert (interval.gradient_norm, interval.overflows, interval.updates) == (2.0, 2, 4)
    assert progress.cross_entropy == 24.0


def test_a_skipped_update_counts_as_such_alone():
    progress = after(1)
    before = dataclasses.replace(progress.interval)

    progress.count_update(None, num_tokens=7, seconds=0.25)

    assert (progress.update, progress.updates_of_epoch, progress.skipped_updates) == (2, 2, 1)
    assert progress.target_tokens == 7
    assert progress.interval == before


@pytest.mark.parametrize(("updates", "expected"), [(13, (2, 3, 0.6)), (10, (2, 0, 0.0))])
def test_updates_make_epochs(updates, expected):
    progress = after(updates)

    assert progress.update == updates
    assert (progress.epoch, progress.updates_of_epoch, progress.epoch_share) == expected


def test_an_update_counts_in_total_and_in_the_interval():
    progress = after(3)

    assert progress.target_tokens == progress.interval.target_tokens == 21
    assert progress.update_seconds == progress.interval.seconds == 0.75
    assert progress.cross_entropy == 18.0
    assert progress.interval.gradient_norm == 1.5
    assert progress.interval.losses["guided_attention_loss"] == (4.5, 6.0)
    assert progress.interval.updates == 3
    assert progress.interval.means() == {"loss": 18.0 / 21, "guided_attention_loss": 0.75}
    assert progress.interval.target_tokens_per_second == 21 / 0.75


@pytest.mark.parametrize(("every", "due"), [(None, [5, 10]), (4, [4, 8])])
def test_validation_is_due_after_epochs_or_every_so_many_updates(every, due):
    config = load_config().training
    validation = dataclasses.replace(config.validation, every_updates=every)
    config = dataclasses.replace(config, validation=validation)

    assert [n for n in range(1, 11) if after(n).validation_is_due(config)] == due


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"max_epochs": 4}, 0.65),
        ({"max_updates": 26}, 0.5),
        ({"max_minutes": 0.2}, 0.25),
        ({"max_epochs": 4, "max_updates": 26, "max_minutes": 0.2}, 0.65),
        ({"max_updates": 13, "max_epochs": 9}, 1.0),
        ({"max_updates": 3}, 1.0),
    ],
)
def test_the_share_is_the_largest_of_all_budgets(budget, expected):
    progress = after(13)
    progress.seconds = 3.0

    config = training(**budget)
    assert progress.share(config) == pytest.approx(expected)
    assert progress.is_finished(config) == (expected == 1)


@pytest.mark.parametrize(
    ("values", "finished"),
    [((1.0, 3.0, 2.0, 3.0), [False, False, False, True]), ((1.0, 0.5, 1.5, 1.0), [False] * 4)],
)
def test_patience_ends_a_run_and_a_best_resets_it(values, finished):
    config, progress = training(max_updates=99, patience=2), Progress()

    found = []
    for value in values:
        progress.count_validation(value, config)
        found.append(progress.is_finished(config))

    assert found == finished


def test_of_equal_values_the_later_is_best_but_does_not_reset_patience():
    progress, config = Progress(), training(max_updates=99, keep_best=2)

    for progress.update in (3, 5, 7):
        progress.count_validation(2.0, config)

    assert progress.best == [(2.0, 7), (2.0, 5)]
    assert progress.since_best == 2


def test_the_best_are_kept_in_order():
    progress, config = Progress(), training(max_updates=99, keep_best=2)

    for progress.update, value in ((2, 1.0), (4, 5.0), (6, 3.0), (8, 0.5), (10, 6.0)):
        progress.count_validation(value, config)

    assert progress.best == [(6.0, 10), (5.0, 4)]
    assert progress.validated_update == 10


def test_plateaus_are_counted():
    progress, config = Progress(), training(max_updates=99, plateau=2)

    plateaus = []
    for value in (1.0, 0.9, 0.8, 0.7, 0.6, 2.0, 1.0, 1.0):
        progress.count_validation(value, config)
        plateaus.append(progress.plateaus)

    assert plateaus == [0, 0, 1, 1, 2, 2, 2, 3]


def test_progress_survives_conversion_to_plain_types():
    progress = after(8)
    progress.count_validation(1.5, training(max_updates=99))

    content = progress.to_dict()

    assert Progress.from_dict(content) == progress
    assert isinstance(content["interval"], dict)


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
