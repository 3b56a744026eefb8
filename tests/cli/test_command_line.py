import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from tiny_training import ROOT

from seq2seq.cli import command_line
from seq2seq.cli.command_line import (
    command,
    next_steps,
    one_line_errors,
    options_first,
    quote_plain_values,
    read_arguments,
    run_script,
)
from seq2seq.cli.score import ScoreConfig
from seq2seq.cli.translate_config import TranslateConfig, load_translate_config
from seq2seq.config.schema import load_config


def fail_with(error):
    @one_line_errors
    def function():
        raise error

    return function


@pytest.mark.parametrize("error", [ValueError("a\n b"), OSError("a b"), FloatingPointError("a b")])
def test_a_users_error_is_one_line_and_exit_code_2(error, capsys):
    with pytest.raises(SystemExit) as end:
        fail_with(error)()

    assert end.value.code == 2
    assert capsys.readouterr() == ("", "error: a b\n")


def test_a_bug_of_the_program_is_not_caught():
    with pytest.raises(RuntimeError, match="ours"):
        fail_with(RuntimeError("ours"))()


def test_the_traceback_is_shown_first_if_the_environment_asks_for_it(capsys, monkeypatch):
    monkeypatch.setattr(command_line, "_SHOWS_TRACEBACKS", True)

    with pytest.raises(SystemExit) as end:
        fail_with(ValueError("a\nb"))()

    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "error: a b")


def test_ctrl_c_is_one_line_and_the_exit_code_of_the_signal(capsys):
    with pytest.raises(SystemExit) as end:
        fail_with(KeyboardInterrupt())()

    assert end.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("before", [None, "0"])
def test_running_a_script_does_not_change_the_environment(before, monkeypatch):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    if before is not None:
        monkeypatch.setenv("HYDRA_FULL_ERROR", before)
    seen = []

    run_script(lambda: seen.append(os.environ["HYDRA_FULL_ERROR"]))

    assert seen == ["1"]
    assert os.environ.get("HYDRA_FULL_ERROR") == before


def values(*arguments, config=TranslateConfig):
    parser = OverridesParser.create()
    return [parser.parse_override(each).value() for each in quote_plain_values(arguments, config)]


def test_the_configuration_of_the_command_says_which_keys_are_paths():
    found = values(
        "reference=r\xe4f, 1.en", "hypotheses=[a b.en,c=d.en]", "output=[x]", config=ScoreConfig
    )

    assert found == [["r\xe4f, 1.en"], ["a b.en", "c=d.en"], "[x]"]
    assert values("plugins=a b.py", "seed=1", config=None) == [["a b.py"], 1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a=1 --multirun b=2", "--multirun a=1 b=2"),
        ("b=1 a=2 --cfg job c=job", "--cfg job b=1 a=2 c=job"),
        ("text=-m --config-dir=my", "--config-dir=my text=-m"),
    ],
)
def test_options_may_stand_anywhere(arguments, expected):
    assert options_first(arguments.split()) == expected.split()


@pytest.mark.parametrize(
    ("arguments", "way_out"),
    [
        (["--checkpoint", "best.pt", "text=a"], "write checkpoint=best.pt"),
        (["seed=1", "--run-name=a b"], "write 'run_name=a b'"),
        (["--bogus", "--cfg", "job"], "write bogus=..."),
        (["text=a", "-x"], "write x=..."),
    ],
)
def test_an_unknown_option_is_one_line_with_the_key_to_write(arguments, way_out):
    with pytest.raises(ValueError, match=rf"^unknown option -.*; {re.escape(way_out)} \(--help"):
        options_first(arguments)


def test_a_wrong_value_of_an_option_is_an_error_without_usage():
    with pytest.raises(ValueError, match=r"^argument --cfg/-c: invalid choice: 'everything'"):
        options_first(["--cfg", "everything"])


@pytest.mark.parametrize("option", ["-m", "--multirun", "hydra.mode=MULTIRUN"])
def test_a_command_without_sweeps_refuses_their_options(option, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "text=-m", option])

    with pytest.raises(ValueError, match=f"^{option}: only train.py sweeps"):
        read_arguments(TranslateConfig)


def test_a_text_may_name_the_option_of_a_sweep(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "text=-m"])

    read_arguments(TranslateConfig)

    assert sys.argv == ["x", "text='-m'"]


as_script = pytest.mark.usefixtures("_called_as_script")
FILES = ("data=files", "data.train=[a,b]", "data.valid=[c,d]")


@pytest.fixture
def _called_as_script(monkeypatch):
    call(monkeypatch, str(ROOT / "train.py"))


def call(monkeypatch, program: str, *, module: str | None = None) -> None:
    """Pretend that this process was called by a program, or by `python -m`."""
    spec = None if module is None else ModuleSpec(module, None)
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))


@as_script
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


@as_script
def test_paths_are_quoted_for_the_shell_and_for_the_command():
    path = Path("my runs/it's, grüße=1")

    steps = next_steps(load_config(), path)

    translate, look = (shlex.split(steps[purpose]) for purpose in ("translate", "look"))
    assert translate[-1] == f"checkpoint={path}"
    assert look[-2:] == ["--logdir", "my runs"]
    [argument] = quote_plain_values(translate[-1:], TranslateConfig)  # as translate.py reads it
    assert load_translate_config(argument).checkpoint == [str(path)]


@as_script
def test_tensorboard_shows_the_sweep_of_a_job():
    config = replace(load_config(), checkpoint_dir="checkpoints")

    steps = next_steps(config, Path("checkpoints/sweep/0-grammar-dot"))

    assert shlex.split(steps["look"])[-2:] == ["--logdir", "checkpoints/sweep"]


@as_script
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


@as_script
def test_a_script_names_the_script_beside_it():
    python, script = command("translate")

    assert (Path(python).absolute(), script) == (
        Path(sys.executable).absolute(),
        str(ROOT / "translate.py"),
    )


@as_script
def test_a_module_names_the_module_beside_it(monkeypatch):
    program = str(ROOT / "seq2seq" / "cli" / "train.py")
    call(monkeypatch, program, module="seq2seq.cli.train")

    assert command("translate")[1:] == ["-m", "seq2seq.cli.translate"]


@as_script
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


@as_script
@pytest.mark.parametrize("installed", [False, True])
def test_tensorboard_is_a_program_or_a_module(monkeypatch, tmp_path, installed):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if installed:
        (tmp_path / "tensorboard").touch()

    words = shlex.split(next_steps(load_config(), Path("checkpoints/mine"))["look"])

    program = [str(tmp_path / "tensorboard")]
    module = [str(tmp_path / "python"), "-m", "tensorboard.main"]
    assert words == [*(program if installed else module), "--logdir", "checkpoints"]


@pytest.mark.parametrize("name", ["train", "translate", "score", "average", "report", "export"])
def test_missing_package_is_one_line(name):
    code = f"import sys; sys.modules['hydra'] = None; import seq2seq.cli.{name}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert re.fullmatch(r"error: this command needs the package hydra.*; install .*\n", done.stderr)
