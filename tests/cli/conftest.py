import runpy
import sys

import pytest
from tiny_training import ROOT, SMALL, corpus_overrides, write_corpus
from tiny_translator import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a tiny model and return the path of its run."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Return what runs train.py in this process, in an empty directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    # The script asks Hydra for whole errors; the tests after this one need them as they were.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [str(ROOT / "train.py"), *arguments])
        code = 0
        try:
            runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "text")
    return [*corpus_overrides(tmp_path / "text"), *SMALL]
