import dataclasses
import math

import pytest

from seq2seq.config.schema import TrainingConfig, load_config
from seq2seq.training.progress import Progress, UpdateResult

RESULT = UpdateResult(
    {"loss": (6.0, 7.0), "guided_attention_loss": (1.5, 2.0)},
    gradient_norm=0.5,
    num_tokens=7,
    seconds=0.25,
)


def training(
    *, keep_best: int = 1, patience: int | None = None, **budget: float | None
) -> TrainingConfig:
    config = load_config().training
    return dataclasses.replace(
        config,
        **{"max_epochs": None, "max_updates": None, "max_minutes": None, **budget},
        validation=dataclasses.replace(config.validation, keep_best=keep_best, patience=patience),
    )


def after(updates: int, *, updates_per_epoch: int = 5) -> Progress:
    progress = Progress(updates_per_epoch=updates_per_epoch)
    for _ in range(updates):
        progress.count_update(RESULT)
    return progress


@pytest.mark.parametrize(
    ("budget", "updates_per_epoch", "due"),
    [
        ({"max_updates": 1000}, 5, [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]),
        ({"max_epochs": 2}, 459, [46, 138, 230, 322, 414, 505, 597, 689, 781, 873]),
        ({"max_updates": 100}, 5, [20, 40, 60, 80, 100]),  # not more often than every 20 updates
    ],
)
def test_validations_divide_the_budget(budget, updates_per_epoch, due):
    config, progress, found = training(**budget), after(0, updates_per_epoch=updates_per_epoch), []
    while progress.share(config) < 1:
        progress.count_update(RESULT)
        if progress.validation_is_due(config):
            found.append(progress.update)
            progress.count_validation(1.0, config)
    assert found == due


def test_an_update_counts_in_total_and_in_the_interval():
    progress = after(3)
    overflow = RESULT._replace(gradient_norm=math.inf)  # of fp16; it has no norm

    progress.count_update(overflow)

    assert (progress.update, progress.updates_of_epoch) == (4, 4)
    assert (progress.target_tokens, progress.update_seconds) == (28, 1.0)
    interval = progress.interval
    assert (interval.updates, interval.target_tokens, interval.seconds) == (4, 28, 1.0)
    assert (interval.gradient_norm, interval.overflows) == (1.5, 1)
    assert interval.losses["guided_attention_loss"] == (6.0, 8.0)
    assert interval.means() == {"loss": 24.0 / 28, "guided_attention_loss": 0.75}
    assert interval.target_tokens_per_second == 28


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


def test_plateaus_are_counted():
    progress, config = Progress(), training(max_updates=99)

    plateaus = []
    for value in (1.0, 0.9, 0.8, 0.7, 0.6, 2.0, 1.0, 1.0):
        progress.count_validation(value, config)
        plateaus.append(progress.plateaus)

    assert plateaus == [0, 0, 1, 1, 2, 2, 2, 3]


def test_progress_survives_conversion_to_plain_types():
    progress = after(8)
    progress.count_validation(1.5, training(max_updates=99))
    progress.interval.gradient_norm = 1e30  # of a run that diverges

    content = dataclasses.asdict(progress)

    assert Progress.from_dict(content) == progress
    assert isinstance(content["interval"], dict)
