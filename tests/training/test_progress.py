import dataclasses
import math

import pytest

from seq2seq.config.schema import TrainingConfig, load_config
from seq2seq.training.progress import Progress
from seq2seq.training.updates import UpdateResult

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

    assert progress.share(training(**budget)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("budget", "finished"),
    [
        ({"max_updates": 14, "max_epochs": 3, "max_minutes": 0.06}, False),
        ({"max_updates": 14, "max_epochs": 2, "max_minutes": 0.06}, True),
    ],
)
def test_a_run_is_finished_when_one_budget_is_used_up(budget, finished):
    progress = after(13)
    progress.seconds = 3.0

    assert progress.is_finished(training(**budget)) == finished


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
