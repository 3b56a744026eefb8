import os
import re
import subprocess
import sys

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from seq2seq.cli import command_line
from seq2seq.cli.command_line import (
    one_line_errors,
    options_first,
    quote_plain_values,
    read_arguments,
    run_script,
)
from seq2seq.cli.score import ScoreConfig
from seq2seq.cli.translate_config import TranslateConfig


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


@pytest.mark.parametrize("name", ["train", "translate", "score", "average", "report", "export"])
def test_missing_package_is_one_line(name):
    code = f"import sys; sys.modules['hydra'] = None; import seq2seq.cli.{name}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert re.fullmatch(r"error: this command needs the package hydra.*; install .*\n", done.stderr)
