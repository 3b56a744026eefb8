import sys

import pytest
import torch
from tiny_translator import make_checkpoint

from seq2seq.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from seq2seq.cli.average import main
from seq2seq.config import plugin_modules


@pytest.fixture
def paths(tmp_path):
    """Return two checkpoint files with different weights."""
    paths = [tmp_path / "a.pt", tmp_path / "b.pt"]
    for seed, path in enumerate(paths):
        save_checkpoint(path, make_checkpoint(seed=seed))
    return list(map(str, paths))


@pytest.fixture
def run(monkeypatch):
    """Return what runs the command in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["seq2seq-average", *arguments])
        main()

    return run


def refusal(run, capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        run(*arguments)

    assert end.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_weights_are_averaged(run, paths, tmp_path):
    run(f"checkpoints=[{','.join(paths)}]", f"output={tmp_path / 'mean.pt'}")

    mean, *states = (load_checkpoint(path).model_state for path in (tmp_path / "mean.pt", *paths))
    for name, weights in mean.items():
        torch.testing.assert_close(weights, (states[0][name] + states[1][name]) / 2)


def test_a_pattern_names_all_checkpoints_that_it_matches(run, paths, tmp_path, caplog):
    run(f"checkpoints={tmp_path}/*.pt", f"output={tmp_path / 'mean'}")

    assert (tmp_path / "mean").exists()


def test_an_output_that_exists_is_kept(run, paths, capsys):
    before = load_checkpoint(paths[0])

    line = refusal(run, capsys, f"checkpoints=[{','.join(paths)}]", f"output={paths[0]}")

    assert line.startswith(f"error: output {paths[0]} exists already; delete it or")
    for name, weights in load_checkpoint(paths[0]).model_state.items():
        assert torch.equal(weights, before.model_state[name])


def test_the_output_may_be_in_the_home_directory(run, paths, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    run(f"checkpoints={paths[0]}", "output=~/mean.pt")

    assert (tmp_path / "home" / "mean.pt").exists()


def test_an_error_is_one_line(run, tmp_path, capsys):
    given = (f"checkpoints={tmp_path}/step-*.pt", f"output={tmp_path}/mean.pt")

    line = refusal(run, capsys, *given)

    assert line.startswith(f"error: checkpoint={tmp_path}/step-*.pt: no such file")
    assert not (tmp_path / "mean.pt").exists()


def test_plugins_are_loaded(run, paths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plugin_modules, "__path__", [])
    monkeypatch.setenv("SEQ2SEQ_PLUGIN_PATH", "")
    plugin = tmp_path / "plugin_of_an_average.py"
    plugin.write_text("print('loaded')\n")

    run(f"checkpoints={paths[0]}", f"output={tmp_path}/mean.pt", f"plugins={plugin}")

    assert capsys.readouterr().out == "loaded\n"
    assert (tmp_path / "mean.pt").exists()
    line = refusal(run, capsys, f"checkpoints={paths[0]}", "output=b.pt", "plugins=gone.py")
    assert line.startswith("error: plugins=gone.py: no such file")
