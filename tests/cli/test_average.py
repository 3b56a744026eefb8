import pytest
import torch
from tiny_translator import make_checkpoint

from seq2seq.cli.average import main
from seq2seq.config import plugin_modules
from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint


@pytest.fixture
def paths(tmp_path):
    """Return two checkpoint files with different weights."""
    paths = [tmp_path / "a.pt", tmp_path / "b.pt"]
    for seed, path in enumerate(paths):
        save_checkpoint(path, make_checkpoint(seed=seed))
    return list(map(str, paths))


@pytest.mark.parametrize("pattern", [False, True])
def test_weights_are_averaged(run, paths, tmp_path, monkeypatch, pattern):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    given = f"{tmp_path}/*.pt" if pattern else f"[{','.join(paths)}]"

    assert run(main, f"checkpoints={given}", "output=~/mean.pt")[0] == 0

    means = tmp_path / "home" / "mean.pt"
    mean, *states = (load_checkpoint(path).model_state for path in (means, *paths))
    for name, weights in mean.items():
        torch.testing.assert_close(weights, (states[0][name] + states[1][name]) / 2)


def test_plugins_are_loaded(run, refusal, paths, tmp_path, monkeypatch):
    monkeypatch.setattr(plugin_modules, "__path__", [])
    monkeypatch.setenv("SEQ2SEQ_PLUGIN_PATH", "")
    plugin = tmp_path / "plugin_of_an_average.py"
    plugin.write_text("print('loaded')\n")

    done = run(main, f"checkpoints={paths[0]}", "output=mean.pt", f"plugins={plugin}")

    assert done[:2] == (0, "loaded\n")
    line = refusal(main, f"checkpoints={paths[0]}", "output=b.pt", "plugins=gone.py")
    assert line.endswith("gone.py: no such file or directory")
