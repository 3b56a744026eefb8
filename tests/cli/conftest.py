import runpy
import sys
from functools import partial

import pytest
from tiny_training import ROOT, SMALL, corpus_overrides, write_corpus
from tiny_translator import write_checkpoint

TRAIN = partial(runpy.run_path, str(ROOT / "train.py"), run_name="__main__")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a tiny model and return the path of its run."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Return what runs a command in this process and in the test's directory.

    It returns the exit code and what standard output and standard error got.
    """
    monkeypatch.chdir(tmp_path)
    # The scripts ask Hydra for whole errors; the tests after this one need them as they were.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def run_command(main, *arguments):
        monkeypatch.setattr(sys, "argv", [str(ROOT / "train.py"), *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        return code, *capfd.readouterr()

    return run_command


@pytest.fixture
def refusal(run):
    """Return what runs a command that must refuse its arguments, and returns the line it writes."""

    def refused(main, *arguments):
        code, out, err = run(main, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("error: ")
        return err.removeprefix("error: ").removesuffix("\n")

    return refused


@pytest.fixture
def work(run, tmp_path, monkeypatch):
    """Run the commands of a test in an empty directory; return it."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def train(run, work):
    """Return what runs train.py in this process."""
    return partial(run, TRAIN)


@pytest.fixture
def train_refusal(refusal, work):
    """Return what runs a train.py that must refuse its arguments, and returns the line."""
    return partial(refusal, TRAIN)


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "text")
    return [*corpus_overrides(tmp_path / "text"), *SMALL]
