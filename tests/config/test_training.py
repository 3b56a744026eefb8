"""The training configuration refuses values that cannot be meant."""

import dataclasses

import pytest

from seq2seq.config.schema import load_config
from seq2seq.config.training import TrainingConfig
from seq2seq.runtime.numerics import Precision


def training() -> TrainingConfig:
    return load_config().training


@pytest.mark.parametrize(
    ("part", "key", "value", "rule"),
    [
        ("optimizer", "learning_rate", 0.0, "must be a finite number above 0"),
        ("optimizer", "learning_rate", float("nan"), "must be a finite number above 0"),
        ("optimizer", "learning_rate", float("inf"), "must be a finite number above 0"),
        ("optimizer", "weight_decay", -0.1, "must be a number of at least 0"),
        ("optimizer", "clip_norm", float("nan"), "must be a number of at least 0"),
        ("schedule", "warmup_updates", -1, "must be a number of at least 0"),
        ("schedule", "minimum_ratio", 1.0, r"must lie in \[0, 1\)"),
        ("schedule", "plateau_factor", -0.5, r"must lie in \[0, 1\)"),
        ("schedule", "plateau_patience", 0, "must be at least 1"),
        ("teacher_forcing", "start", 1.01, r"must lie in \[0, 1\]"),
        ("teacher_forcing", "end", -0.01, r"must lie in \[0, 1\]"),
        ("teacher_forcing", "updates", 0, "must be at least 1"),
        ("guided_attention", "weight", -0.5, "must be a number of at least 0"),
        ("guided_attention", "weight", float("nan"), "must be a number of at least 0"),
        ("guided_attention", "weight", float("inf"), "must be a number of at least 0"),
        ("validation", "every_updates", 0, "must be at least 1"),
        ("validation", "patience", 0, "must be at least 1"),
        ("validation", "keep_best", 0, "must be at least 1"),
        ("validation", "batch_size", 0, "must be at least 1"),
        ("validation", "num_samples", -1, "must be a number of at least 0"),
    ],
)
def test_a_value_of_a_part_out_of_its_range_is_refused_with_its_key(part, key, value, rule):
    config = getattr(training(), part)

    with pytest.raises(ValueError, match=rf"^training\.{part}\.{key}={value} {rule}"):
        dataclasses.replace(config, **{key: value})


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("max_epochs", 0, "must be at least 1"),
        ("max_updates", 0, "must be at least 1"),
        ("threads", 0, "must be at least 1"),
        ("max_minutes", 0.0, "must be a finite number above 0"),
        ("max_minutes", float("nan"), "must be a finite number above 0"),
        ("accumulation", 0, "must be at least 1"),
        ("log_every", 0, "must be at least 1"),
        ("ema_decay", 1.0, r"must lie in \[0, 1\)"),
        ("ema_decay", -0.1, r"must lie in \[0, 1\)"),
        ("r_drop", -1.0, "must be a number of at least 0"),
        ("r_drop", float("nan"), "must be a number of at least 0"),
        ("coverage_loss", -0.5, "must be a number of at least 0"),
        ("coverage_loss", float("inf"), "must be a number of at least 0"),
        ("label_smoothing", 1.0, r"must lie in \[0, 1\)"),
        ("label_smoothing", float("nan"), r"must lie in \[0, 1\)"),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_its_key(key, value, rule):
    config = training()

    with pytest.raises(ValueError, match=rf"^training\.{key}={value} {rule}"):
        dataclasses.replace(config, **{key: value})


def test_a_training_without_a_budget_is_refused():
    config = training()

    with pytest.raises(ValueError, match=r"set training\.max_epochs, training\.max_updates or"):
        dataclasses.replace(config, max_epochs=None)


@pytest.mark.parametrize("key", ["max_updates", "max_minutes"])
def test_any_one_budget_suffices(key):
    config = dataclasses.replace(training(), **{"max_epochs": None, key: 2})

    assert getattr(config, key) == 2


def test_an_empty_path_of_alignments_is_refused():
    config = training().guided_attention

    with pytest.raises(ValueError, match=r"^training\.guided_attention\.alignments=' ' must be"):
        dataclasses.replace(config, alignments=" ")


def test_attention_is_not_guided_unless_asked_for():
    config = training().guided_attention

    assert (config.weight, config.alignments) == (0.0, None)


def test_the_ends_of_the_ranges_are_allowed():
    config = training()

    forcing = dataclasses.replace(config.teacher_forcing, start=0.0, end=1.0)
    optimizer = dataclasses.replace(config.optimizer, clip_norm=0.0, weight_decay=0.0)
    schedule = dataclasses.replace(config.schedule, warmup_updates=0, minimum_ratio=0.0)

    assert (forcing.start, optimizer.clip_norm, schedule.warmup_updates) == (0.0, 0.0, 0)


def test_a_misspelt_key_cannot_be_set():
    config = training()

    with pytest.raises(AttributeError):
        config.max_epoch = 3  # type: ignore[attr-defined]  # the misspelling is the point


def test_training_in_int8_is_refused():
    with pytest.raises(ValueError, match=r"training\.precision=int8 has no gradients; choose auto"):
        dataclasses.replace(training(), precision=Precision.int8)


def test_an_average_of_one_checkpoint_is_refused():
    with pytest.raises(ValueError, match=r"training\.validation\.keep_best=1 keeps one"):
        dataclasses.replace(training(), average_best=True)
