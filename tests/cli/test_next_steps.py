import shlex
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from tiny_training import ROOT

from seq2seq.cli.hydra_arguments import quote_plain_values
from seq2seq.cli.next_steps import command, next_steps
from seq2seq.config.schema import load_config

FILES = ("data=files", "data.train=[a,b]", "data.valid=[c,d]")


@pytest.fixture(autouse=True)
def _called_as_script(monkeypatch):
    call(monkeypatch, str(ROOT / "train.py"))


def call(monkeypatch, program: str, *, module: str | None = None) -> None:
    """Pretend that this process was called by a program, or by `python -m`."""
    spec = None if module is None else ModuleSpec(module, None)
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))


@pytest.mark.parametrize(
    ("overrides", "purposes"),
    [
        ((), ["translate", "look", "real text"]),
        (("data=multi30k",), ["translate", "look"]),
        (FILES, ["translate", "look"]),
    ],
)
def test_real_text_is_proposed_only_after_the_generated_corpus(overrides, purposes):
    assert list(next_steps(load_config(*overrides), Path("checkpoints/mine"))) == purposes


def test_paths_are_quoted_for_the_shell_and_for_the_command():
    path = Path("my runs/it's, grüße=1")

    steps = next_steps(load_config(), path)

    translate, look = (shlex.split(steps[purpose]) for purpose in ("translate", "look"))
    assert translate[-1] == f"checkpoint={path}"
    assert look[-2:] == ["--logdir", "my runs"]
    [argument] = quote_plain_values(translate[-1:])  # as translate.py reads it
    assert load_checkpoint_paths(argument) == [str(path)]


def test_tensorboard_shows_the_sweep_of_a_job():
    config = replace(load_config(), checkpoint_dir="checkpoints")

    steps = next_steps(config, Path("checkpoints/sweep/0-grammar-dot"))

    assert shlex.split(steps["look"])[-2:] == ["--logdir", "checkpoints/sweep"]


@pytest.mark.parametrize(
    "given",
    [["my plugins/cosine.py", "kernels"], ["my, plugins/cosine.py"], ["it's/a.py", "b c.py"]],
)
def test_translating_names_the_plugins_of_the_run(given):
    config = load_config()
    config.plugins = given

    *_, plugins = shlex.split(next_steps(config, Path("a"))["translate"])

    [quoted] = quote_plain_values([plugins])
    assert OverridesParser.create().parse_override(quoted).value() == config.plugins


def load_checkpoint_paths(argument: str) -> list[str]:
    from seq2seq.cli.translation.config import load_translate_config

    return list(load_translate_config(argument).checkpoint)


def test_a_script_names_the_script_beside_it():
    python, script = command("translate")

    assert (Path(python).absolute(), script) == (
        Path(sys.executable).absolute(),
        str(ROOT / "translate.py"),
    )


def test_a_module_names_the_module_beside_it(monkeypatch):
    program = str(ROOT / "seq2seq" / "cli" / "train.py")
    call(monkeypatch, program, module="seq2seq.cli.train")

    assert command("translate")[1:] == ["-m", "seq2seq.cli.translate"]


def test_an_installed_program_is_named_with_its_path_unless_the_shell_finds_it(
    monkeypatch, tmp_path
):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("seq2seq-train", "seq2seq-translate"):
        (folder / name).touch(mode=0o755)
    call(monkeypatch, str(folder / "seq2seq-train"))
    monkeypatch.setenv("PATH", str(folder))
    assert command("translate") == ["seq2seq-translate"]

    monkeypatch.setenv("PATH", str(tmp_path))
    assert command("translate") == [str(folder / "seq2seq-translate")]
    monkeypatch.chdir(tmp_path)
    assert command("translate") == ["bin/seq2seq-translate"]


@pytest.mark.parametrize("installed", [False, True])
def test_tensorboard_is_a_program_or_a_module(monkeypatch, tmp_path, installed):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if installed:
        (tmp_path / "tensorboard").touch()

    words = shlex.split(next_steps(load_config(), Path("checkpoints/mine"))["look"])

    program = [str(tmp_path / "tensorboard")]
    module = [str(tmp_path / "python"), "-m", "tensorboard.main"]
    assert words == [*(program if installed else module), "--logdir", "checkpoints"]
