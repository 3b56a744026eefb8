import pytest
import torch
from tiny_training import tiny_trainer

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.training.checkpoint_writer import CheckpointWriter, SaveClock
from seq2seq.training.progress import Progress


def names(writer_directory):
    return {path.name for path in writer_directory.path.glob("*.pt")}


@pytest.mark.parametrize(
    ("keep_best", "expected"),
    [(1, {"best.pt"}), (2, {"best.pt", "step-2.pt", "step-4.pt"})],
)
def test_the_best_are_written_and_the_others_deleted(tmp_path, keep_best, expected):
    trainer = tiny_trainer(tmp_path, f"training.validation.keep_best={keep_best}")
    config, directory = trainer.config, trainer.directory
    writer = CheckpointWriter(config, tokenizers=trainer.data.tokenizers, directory=directory)
    progress = Progress()

    for progress.update, value in ((1, 1.0), (2, 3.0), (3, 0.5), (4, 2.0)):
        state = trainer.model.state_dict()
        state["decoder.output.bias"] = torch.full_like(state["decoder.output.bias"], value)
        dropped = progress.count_validation(value, config.training)
        writer.keep_best(state, progress, dropped_updates=dropped)

    assert names(directory) == expected
    best = load_checkpoint(directory.best)
    assert best.model_state["decoder.output.bias"][0] == 3.0
    assert best.training_state is None


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose only number is the time in seconds."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_save_is_due_when_the_interval_has_passed(clock):
    saves = SaveClock(2)

    clock[0] += 119
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_every_save_starts_the_interval_anew(clock):
    saves = SaveClock(2)
    clock[0] += 100

    with saves.saving():
        pass

    clock[0] += 119
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_a_slow_save_is_made_less_often_and_costs_one_percent(clock):
    saves = SaveClock(2)

    with saves.saving():
        clock[0] += 3

    clock[0] += 299
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_without_an_interval_no_save_is_due(clock):
    saves = SaveClock(None)

    clock[0] += 1e9

    assert not saves.is_due()
