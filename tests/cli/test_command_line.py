import os
import re
import subprocess
import sys

import pytest
from documents import ROOT
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2seq.cli import command_line
from seq2seq.cli.command_line import errors_in_one_line, load_command, run_command
from seq2seq.cli.score import ScoreConfig
from seq2seq.cli.translate_config import load_translate_config
from seq2seq.runtime.process import imports_in_one_line

SHORTAGE = "error: the memory of this computer is too small, or limited by ulimit -v; end other "


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\n b"), "error: a b\n"),
        (OSError("a b"), "error: a b\n"),
        (FloatingPointError("a b"), "error: a b\n"),
        (MemoryError(), SHORTAGE),
        (type("_ArrayMemoryError", (MemoryError,), {})("Unable to allocate"), SHORTAGE),  # NumPy's
        (RuntimeError("could not create a primitive"), SHORTAGE),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allo"), SHORTAGE),
        (ImportError("libXau.so.6: failed to map segment from shared object"), SHORTAGE),
    ],
)
def test_a_users_error_is_one_line_and_exit_code_2(error, line, capsys):
    with pytest.raises(SystemExit) as end, errors_in_one_line():
        raise error

    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_too_little_memory_for_the_packages_is_one_line(capsys):
    with pytest.raises(SystemExit) as end, imports_in_one_line():
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")

    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(SHORTAGE)


def test_a_bug_of_the_program_is_not_caught():
    with pytest.raises(RuntimeError, match="ours"), errors_in_one_line():
        raise RuntimeError("ours")


def test_the_traceback_is_shown_first_if_the_environment_asks_for_it(capsys, monkeypatch):
    monkeypatch.setattr(command_line, "_SHOWS_TRACEBACKS", True)

    with pytest.raises(SystemExit) as end, errors_in_one_line():
        raise ValueError("a\nb")

    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "error: a b")


def load(*arguments):
    """Load the configuration of translate.py with a checkpoint."""
    return load_translate_config("checkpoint=x", *arguments)


@pytest.mark.parametrize("key", ["checkpoint", "input"])
@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("run", ["run"]),
        ("my b\xfccher, (all) = 'x'.pt", ["my b\xfccher, (all) = 'x'.pt"]),
        ("[a.pt]", ["a.pt"]),
        ("[b\xfccher/lr=0.1/best.pt, b c.pt]", ["b\xfccher/lr=0.1/best.pt", "b c.pt"]),
        ("['a,b.pt',it's.pt]", ["a,b.pt", "it's.pt"]),
    ],
)
def test_one_path_or_several_in_brackets_are_a_list(key, given, paths):
    config = load_translate_config("checkpoint=x", f"{key}={given}")

    assert getattr(config, key) == paths


@settings(max_examples=15)
@example(text="{x: 1, x: 2}")
@given(text=st.text(alphabet="a\xe4 ,'\"\\${}=\n[](x):\u2028", max_size=10))
def test_any_text_passes_through_the_command_line_unchanged(text):
    assert load(f"text={text}").text == text


def test_values_get_the_types_of_their_keys():
    given = ["batch_size=3", "decoding.length_penalty=1", "text=null"]
    optional = ("threads", "input")

    config = load(*given, *(f"{key}=null" for key in optional), "batch_size=4")

    assert config.batch_size == 4  # the last of several values holds
    assert repr(config.decoding.length_penalty) == "1.0"
    assert config.text == "null"
    assert [getattr(config, key) for key in optional] == [None] * 2


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("batchsize=3", "unknown key 'batchsize'; did you mean batch_size?"),
        ("colour=red", "unknown key 'colour'; one of: alignments, attention_html, "),
        ("beam_size=3", "unknown key 'beam_size'; did you mean decoding.beam_size"),
        (
            "decoding.beamsize=3",
            "unknown key 'decoding.beamsize'; did you mean decoding.beam_size?",
        ),
        ("decoding.top_k=3", "unknown key 'decoding.top_k'; it belongs to decoding=sampling"),
        ("decoding=beem", "unknown decoding 'beem'; one of: beam, greedy, mbr, sampling"),
        ("batch_size=many", "batch_size: Value 'many' of type 'str' could not be converted to In"),
        ("batch_size=0", "batch_size=0 must be at least 1"),
        ("output_format=xml", "output_format: Invalid value 'xml', expected one of [text, nbest, "),
        ("input=[]", r"input=[] must be a file, or several: [a,b]"),
        ("input=", r"input=[''] must be a file, or several: [a,b]"),
        ("text", "'text' is not key=value; --help shows the keys"),
        ("my/input.de", "'my/input.de' is not key=value; --help shows the keys"),
        ("--batch_size=3", "'--batch_size=3' is not key=value; --help shows the keys"),
        ("-m", "'-m' is not key=value; --help shows the keys"),
    ],
)
def test_a_mistake_is_described_in_one_line(argument, line):
    with pytest.raises(ValueError) as refused:
        load(argument)

    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_a_key_without_a_value_is_named():
    with pytest.raises(ValueError, match=r"^reference needs a value; give reference=\.\.\.$"):
        load_command("score", ScoreConfig, ["hypotheses=a"])


def test_help_has_all_keys_with_their_values(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "reference=a", "--help"])

    run_command("score", ScoreConfig, lambda config: pytest.fail("it ran"))

    out, err = capsys.readouterr()
    assert "Score files of translations by BLEU" in out
    assert "\n  hypotheses=??? reference=??? bleu_tokenize=auto " in out
    assert out.endswith(" output_format=text\n")
    assert err == ""


@pytest.mark.parametrize(
    "name", ["train", "translate", "prepare", "score", "average", "report", "export"]
)
def test_missing_package_is_one_line(name):
    code = f"import sys; sys.modules['hydra'] = None; import seq2seq.cli.{name}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    line = r"error: this command needs the package hydra.*; activate .* install .*\n"
    assert re.fullmatch(line, done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps the directory of a process")
@pytest.mark.parametrize("command", ["translate", "average"])
def test_a_deleted_directory_is_one_line(tmp_path, command):
    script = f'cd "$1" && rmdir "$1" && exec "$0" -m seq2seq.cli.{command} checkpoint=a'
    arguments = ["sh", "-c", script, sys.executable, str(tmp_path)]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    line = "error: the current directory has been deleted; change to another\n"
    assert (done.returncode, done.stderr) == (2, line)
