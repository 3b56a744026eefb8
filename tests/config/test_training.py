"""The training configuration refuses values that cannot be meant."""

import dataclasses

import pytest

from seq2seq.config.schema import load_config
from seq2seq.config.training import TrainingConfig
from seq2seq.runtime.numerics import Precision


def training() -> TrainingConfig:
    return load_config().training


def test_a_training_without_a_budget_is_refused():
    config = training()

    with pytest.raises(ValueError, match=r"set training\.max_epochs, training\.max_updates or"):
        dataclasses.replace(config, max_epochs=None)


@pytest.mark.parametrize("key", ["max_updates", "max_minutes"])
def test_any_one_budget_suffices(key):
    config = dataclasses.replace(training(), **{"max_epochs": None, key: 2})

    assert getattr(config, key) == 2


def test_attention_is_not_guided_unless_asked_for():
    config = training().guided_attention

    assert (config.weight, config.alignments) == (0.0, None)


def test_training_in_int8_is_refused():
    with pytest.raises(ValueError, match=r"training\.precision=int8 has no gradients; choose auto"):
        dataclasses.replace(training(), precision=Precision.int8)


def test_an_average_of_one_checkpoint_is_refused():
    with pytest.raises(ValueError, match=r"training\.validation\.keep_best=1 keeps one"):
        dataclasses.replace(training(), average_best=True)
