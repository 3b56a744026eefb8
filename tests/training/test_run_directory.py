import os
from dataclasses import replace

import pytest
from tiny_training import tiny_trainer

from seq2seq.config.schema import load_config
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.training.curves import TensorBoard
from seq2seq.training.progress import Progress
from seq2seq.training.resume import check_start
from seq2seq.training.run_directory import RunDirectory

TEXTS = [f"{split}.{kind}" for split in ("test", "valid") for kind in ("gold", "hyp", "ref", "src")]
RUN_FILES = ("best.pt", "last.pt", "step-7.pt", "results.json", "train.log", *TEXTS)


@pytest.fixture
def directory(tmp_path):
    directory = RunDirectory(tmp_path / "runs" / "mine")
    directory.open(load_config())
    for name in RUN_FILES:
        (directory.path / name).write_text(name)
    directory.tensorboard.mkdir()
    (directory.tensorboard / "events.out").write_text("curves")
    return directory


def names(directory):
    return {path.name for path in directory.path.iterdir()}


def modification_times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "left", [None, "failed.txt", ".config.yaml.123-0a1b2c3d"], ids=["new", "failed", "killed"]
)
def test_a_directory_without_a_run_is_accepted_and_emptied(tmp_path, left):
    """A failed job of a sweep, or a process that was killed as it began, may have left a file."""
    directory = RunDirectory(tmp_path / "a" / "b")
    if left is not None:
        directory.path.mkdir(parents=True)
        (directory.path / left).write_text("no such file\n")

    check_start(load_config(), directory)

    assert directory.path.exists() == (left is not None)
    with directory.lock():
        check_start(load_config(), directory)
        directory.open(load_config())
    assert names(directory) == {"config.yaml"}
    assert directory.has_run


@pytest.mark.parametrize(
    ("place", "overrides", "message"),
    [
        ("mine", [], "has a run already; .*resume=true.*overwrite=true.*another run_name"),
        ("mine", ["resume=true", "overwrite=true"], "exclude each other; choose one"),
        ("new", ["resume=true"], "has no run; remove resume=true"),
        ("file", [], "exists and is not a run; choose another run_name"),
        ("notes", [], "exists and is not a run; choose another run_name"),
        ("notes", ["overwrite=true"], "exists and is not a run; choose another run_name"),
        ("other", ["overwrite=true"], "exists and is not a run; choose another"),
    ],
)
def test_a_place_that_is_not_free_is_refused_and_left_as_it_is(
    directory, place, overrides, message
):
    runs = directory.path.parent
    for name in ("file", "notes/thesis.tex", "other/config.yaml", "other/best.pt"):
        (runs / name).parent.mkdir(exist_ok=True)
        (runs / name).write_text("optimizer: adam\n")
    before = modification_times(runs)

    with pytest.raises(ValueError, match=message):
        check_start(load_config(*overrides), RunDirectory(runs / place))

    check_start(load_config("overwrite=true"), directory)
    assert modification_times(runs) == before


@pytest.mark.parametrize("start", ["{}", "{}/best.pt", "~/mine"])
def test_overwriting_the_run_of_the_initial_weights_is_refused(directory, monkeypatch, start):
    monkeypatch.setenv("HOME", str(directory.path.parent))

    with pytest.raises(ValueError, match=r"which overwrite=true deletes; choose another run_name"):
        check_start(
            load_config("overwrite=true", f"init_from='{start.format(directory.path)}'"), directory
        )

    check_start(load_config("overwrite=true", f"init_from='{directory.path}-other'"), directory)


def test_overwriting_deletes_only_the_files_of_a_run(directory):
    mine = {"notes.txt", "step-mine.pt", "best-of-all.pt", "best-10.pt", "valid.mine.hyp"}
    for name in (*mine, "step-10.pt", "valid.talks.hyp", "valid.talks.npz"):
        (directory.path / name).write_text("mine")
    (directory.path / "plots").mkdir()

    check_start(load_config("overwrite=true"), directory)
    directory.open(load_config("overwrite=true"))

    assert names(directory) == {"config.yaml", "plots", *mine}


@pytest.mark.parametrize("choice", ["overwrite=true", "resume=true"])
def test_unfinished_files_of_a_killed_process_are_deleted(directory, choice):
    (directory.path / ".last.pt.99-0123abcd").write_bytes(b"half")
    (directory.path / ".notes.md").write_text("mine")
    (directory.path / ".train-1.99-0123abcd").mkdir()  # of a cache in the directory
    before = names(directory)

    directory.open(load_config(choice))

    hidden = {name for name in names(directory) if name.startswith(".")}
    assert hidden == {".notes.md", ".train-1.99-0123abcd"}
    if choice == "resume=true":
        assert names(directory) == before - {".last.pt.99-0123abcd"}


@pytest.mark.parametrize("options", [{"resume": True}, {"overwrite": True}, {}])
def test_a_named_pipe_in_place_of_the_configuration_is_not_awaited(tmp_path, options):
    os.mkfifo(tmp_path / "config.yaml")

    with pytest.raises(ValueError, match=r"has no run; remove|exists and is not a run; choose"):
        check_start(replace(load_config(), **options), RunDirectory(tmp_path))


class Validations:
    """Makes validations of a run, whose weights contain their value."""

    def __init__(self, folder, keep_best: int) -> None:
        self.trainer = tiny_trainer(folder, f"training.validation.keep_best={keep_best}")
        self.directory = self.trainer.directory
        self.trainer.progress = self.progress = Progress()

    def validate(self, update: int, value: float) -> None:
        self.progress.update = update
        self.trainer.model.decoder.output.bias.data.fill_(value)
        self.progress.count_validation(value, self.trainer.config.training)
        self.directory.keep_best(
            self.trainer._checkpoint(self.trainer.model), self.progress.best_updates, update=update
        )

    def save_last(self) -> None:
        with TensorBoard(None, first_update=1) as board:
            self.trainer._save_last(board)

    def checkpoints(self) -> set[str]:
        return {path.name for path in self.directory.path.glob("*.pt")}

    def kept(self, name: str) -> float:
        """Return the value in the weights of a checkpoint."""
        checkpoint = load_checkpoint(self.directory.path / name)
        assert checkpoint.training_state is None
        return checkpoint.model_state["decoder.output.bias"][0].item()


@pytest.mark.parametrize(
    ("keep_best", "expected"),
    [(1, {"best.pt": 3.0}), (2, {"best.pt": 3.0, "step-2.pt": 3.0, "step-4.pt": 2.0})],
)
def test_the_best_are_written_and_the_others_deleted(tmp_path, keep_best, expected):
    run = Validations(tmp_path, keep_best)
    own = {"step-900.pt"} if keep_best > 1 else {"step-1.pt", "step-900.pt"}
    for name in own:  # copied by the user
        (run.directory.path / name).touch()

    for update, value in ((1, 1.0), (2, 3.0), (3, 0.5), (4, 2.0)):
        run.validate(update, value)
        run.save_last()

    assert run.checkpoints() == {*expected, *own, "last.pt"}
    assert {name: run.kept(name) for name in expected} == expected


def test_a_run_killed_before_last_is_written_has_all_checkpoints_that_last_names(tmp_path):
    run = Validations(tmp_path, keep_best=2)
    for update, value in ((1, 1.0), (2, 3.0)):
        run.validate(update, value)
    run.save_last()

    run.validate(3, 2.0)

    assert {"step-1.pt", "step-2.pt"} <= run.checkpoints()
