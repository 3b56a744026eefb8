import copy

import pytest
import torch
from tiny_training import tiny_trainer

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.training.checkpoints import SaveClock
from seq2seq.training.progress import Progress


def names(writer_directory):
    return {path.name for path in writer_directory.path.glob("*.pt")}


class Validations:
    """Counts validations as a run does and writes their checkpoints."""

    def __init__(self, folder, keep_best: int, progress: Progress | None = None) -> None:
        trainer = tiny_trainer(folder, f"training.validation.keep_best={keep_best}")
        self.config, self.directory = trainer.config.training, trainer.directory
        self.writer = trainer.writer
        self.state = trainer.model.state_dict()
        self.progress = progress or Progress()

    def validate(self, update: int, value: float) -> None:
        """Keep weights that contain the value."""
        self.progress.update = update
        bias = torch.full_like(self.state["decoder.output.bias"], value)
        self.progress.count_validation(value, self.config)
        self.writer.keep_best({**self.state, "decoder.output.bias": bias}, self.progress)

    def save_last(self) -> None:
        state = {"fingerprint": "", "progress": self.progress.to_dict(), "updater": {}}
        self.writer.save_last(self.state, state, self.progress)

    def kept(self, name: str) -> float:
        """Return the value in the weights of a checkpoint."""
        checkpoint = load_checkpoint(self.directory.path / name)
        assert checkpoint.training_state is None
        return checkpoint.model_state["decoder.output.bias"][0].item()


@pytest.mark.parametrize(
    ("keep_best", "expected"),
    [
        (1, {"best.pt": 3.0}),
        (2, {"best.pt": 3.0, "step-2.pt": 3.0, "step-4.pt": 2.0}),
    ],
)
def test_the_best_are_written_and_the_others_deleted(tmp_path, keep_best, expected):
    run = Validations(tmp_path, keep_best)

    for update, value in ((1, 1.0), (2, 3.0), (3, 0.5), (4, 2.0)):
        run.validate(update, value)
        run.save_last()

    assert names(run.directory) == {*expected, "last.pt"}
    assert {name: run.kept(name) for name in expected} == expected


def test_a_run_killed_before_last_is_written_has_all_checkpoints_that_last_names(tmp_path):
    run = Validations(tmp_path, keep_best=2)
    for update, value in ((1, 1.0), (2, 3.0)):
        run.validate(update, value)
    run.save_last()

    run.validate(3, 2.0)

    assert {"step-1.pt", "step-2.pt"} <= names(run.directory)


def test_best_is_replaced_when_last_names_it_and_files_of_others_stay(tmp_path):
    run = Validations(tmp_path, keep_best=1)
    run.validate(1, 1.0)
    run.save_last()
    before = copy.deepcopy(run.progress)
    for name in ("best-1.pt", "best-2.pt"):  # the user's copies
        (run.directory.path / name).touch()

    run.validate(2, 3.0)

    assert (run.kept("best.pt"), run.kept(".best-2.pt")) == (1.0, 3.0)
    run.writer.replace_best(before)  # the run was killed here, and resumed from last.pt
    assert names(run.directory) == {"best.pt", "last.pt", "best-1.pt", "best-2.pt"}
    assert run.kept("best.pt") == 1.0
    run.writer.replace_best(Progress())  # the validation text has changed
    assert run.kept("best.pt") == 1.0


def test_more_checkpoints_may_be_kept_after_resuming(tmp_path):
    run = Validations(tmp_path, keep_best=1)
    run.validate(1, 2.0)
    run.save_last()

    resumed = Validations(tmp_path, keep_best=2, progress=run.progress)
    resumed.validate(2, 3.0)
    resumed.save_last()

    expected = {"best.pt": 3.0, "step-1.pt": 2.0, "step-2.pt": 3.0}
    assert {name: resumed.kept(name) for name in expected} == expected


def test_a_checkpoint_that_was_deleted_is_not_written_again_from_another_one(tmp_path, caplog):
    run = Validations(tmp_path, keep_best=3)
    for update, value in ((1, 1.0), (2, 3.0)):
        run.validate(update, value)
        run.save_last()
    run.directory.step(1).unlink()

    run.validate(3, 2.0)
    run.save_last()

    assert names(run.directory) == {"best.pt", "last.pt", "step-2.pt", "step-3.pt"}
    assert [update for _, update in run.progress.best] == [2, 3]
    assert caplog.messages == [
        f"{run.directory.step(1)} is missing; it no longer counts as one of the best"
    ]


def test_fewer_checkpoints_may_be_kept_after_resuming_and_files_of_others_stay(tmp_path):
    run = Validations(tmp_path, keep_best=3)
    for update in (1, 2, 3):
        run.validate(update, float(update))
        run.save_last()
    for name in ("step-mine.pt", "step-99.pt"):
        (run.directory.path / name).touch()

    resumed = Validations(tmp_path, keep_best=1, progress=run.progress)
    resumed.validate(4, 2.5)
    resumed.save_last()

    assert names(resumed.directory) == {"best.pt", "last.pt", "step-mine.pt", "step-99.pt"}
    assert resumed.kept("best.pt") == 3.0


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose only number is the time in seconds."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("cost", "wait"), [(0, 120), (1, 120), (3, 300)])
def test_a_save_is_due_after_the_interval_or_later_to_cost_one_percent(clock, cost, wait):
    saves = SaveClock(2)
    clock[0] += 120
    assert saves.is_due()

    with saves.saving():
        clock[0] += cost

    clock[0] += wait - 1
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_without_an_interval_no_save_is_due(clock):
    saves = SaveClock(None)

    clock[0] += 1e9

    assert not saves.is_due()
