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


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))

    assert end.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_the_first_path_is_the_output(paths, tmp_path):
    main([str(tmp_path / "mean.pt"), *paths])

    mean, *states = (load_checkpoint(path).model_state for path in (tmp_path / "mean.pt", *paths))
    for name, weights in mean.items():
        torch.testing.assert_close(weights, (states[0][name] + states[1][name]) / 2)


def test_a_forgotten_output_overwrites_no_checkpoint(paths, capsys):
    before = load_checkpoint(paths[0])

    line = refusal(capsys, *paths)

    assert line.startswith(f"error: output {paths[0]} exists already; delete it or")
    for name, weights in load_checkpoint(paths[0]).model_state.items():
        assert torch.equal(weights, before.model_state[name])


def test_the_output_may_be_in_the_home_directory(paths, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    main(["~/mean.pt", *paths])

    assert (tmp_path / "home" / "mean.pt").exists()


def test_an_error_is_one_line(paths, tmp_path, capsys):
    line = refusal(capsys, tmp_path / "mean.pt", paths[0], tmp_path / "nowhere.pt")

    assert line.startswith(f"error: checkpoint={tmp_path}/nowhere.pt: no such file")
    assert not (tmp_path / "mean.pt").exists()


def test_plugins_are_loaded_and_are_no_checkpoints(paths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plugin_modules, "__path__", [])
    monkeypatch.setenv("SEQ2SEQ_PLUGIN_PATH", "")
    plugin = tmp_path / "plugin_of_an_average.py"
    plugin.write_text("print('loaded')\n")

    main([str(tmp_path / "mean.pt"), f"plugins={plugin}", *paths])

    assert capsys.readouterr().out == "loaded\n"
    assert (tmp_path / "mean.pt").exists()
    line = refusal(capsys, tmp_path / "b.pt", *paths, "plugins=[gone.py]")
    assert line.startswith("error: plugins=gone.py: no such file")
