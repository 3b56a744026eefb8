"""A validation takes part in every process; test_trainer.py has whole runs."""

import pytest
from tiny_training import tiny_trainer

from seq2seq.runtime.distributed import Ranks
from seq2seq.training import validation
from seq2seq.training.monitoring.tensorboard import TensorBoard


@pytest.fixture
def trainer(tmp_path):
    trainer = tiny_trainer(tmp_path, "training.validation.metric=loss")
    trainer.progress.update = 5
    return trainer


def validate(trainer) -> None:
    with TensorBoard(None, first_update=1) as board:
        trainer.validator.validate(trainer.model, trainer.updater, trainer.progress, board)


def test_the_validation_is_counted_and_the_weights_are_kept(trainer):
    validate(trainer)

    assert trainer.progress.validated_update == 5
    assert trainer.progress.best_update == 5
    assert trainer.directory.best.exists()


def test_another_process_counts_and_writes_nothing(trainer, monkeypatch):
    trainer.validator._ranks = Ranks(1, 1, 2)
    monkeypatch.setattr(validation, "check_equal_weights", lambda model, ranks: None)

    validate(trainer)

    assert trainer.progress.best_update == 5
    assert not trainer.directory.best.exists()


def test_other_weights_than_those_of_the_first_process_stop_before_scoring(trainer, monkeypatch):
    def differ(model, ranks):
        raise ValueError("the weights differ")

    monkeypatch.setattr(validation, "check_equal_weights", differ)

    with pytest.raises(ValueError, match="the weights differ"):
        validate(trainer)

    assert trainer.progress.validated_update == 0
    assert not trainer.directory.best.exists()
