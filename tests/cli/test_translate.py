import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tiny_translator import write_checkpoint

from seq2seq.cli.hydra_arguments import TRANSLATE_LISTS, TRANSLATE_PATHS, quote_plain_values
from seq2seq.cli.translation.config import TranslateConfig

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.mark.parametrize("key", sorted({*TRANSLATE_PATHS} - {*TRANSLATE_LISTS}))
def test_any_path_passes_through_the_command_line_unchanged(key):
    [argument] = quote_plain_values([f"{key}=my b\xfccher, (all) = 'x'.txt"])

    value = OverridesParser.create().parse_override(argument).value()

    assert value == "my b\xfccher, (all) = 'x'.txt"


@pytest.mark.parametrize("key", TRANSLATE_LISTS)
@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("run", ["run"]),
        ("my b\xfccher, (all) = 'x'.pt", ["my b\xfccher, (all) = 'x'.pt"]),
        ("'a,b.pt'", ["a,b.pt"]),
        ("", [""]),
        ("[]", []),
        ("[a.pt]", ["a.pt"]),
        ("[b\xfccher/lr=0.1/best.pt, b c.pt]", ["b\xfccher/lr=0.1/best.pt", "b c.pt"]),
        ("['a,b.pt',c.pt]", ["a,b.pt", "c.pt"]),
    ],
)
def test_a_single_path_becomes_a_list(key, given, paths):
    [argument] = quote_plain_values([f"{key}={given}"])

    override = OverridesParser.create().parse_override(argument)

    assert override.value() == paths
    assert not override.is_sweep_override()


def test_every_key_of_a_path_is_known():
    plain = {"text", "threads", *TRANSLATE_LISTS, *TRANSLATE_PATHS}

    assert {each.name for each in fields(TranslateConfig) if "str" in str(each.type)} <= plain


@settings(max_examples=200)
@given(text=st.text(alphabet="a\xe4 ,'\"\\${}=\n[](x):\u2028", max_size=10))
def test_any_text_passes_through_the_command_line_unchanged(text):
    [argument] = quote_plain_values([f"text={text}"])

    value = OverridesParser.create().parse_override(argument).value()

    assert OmegaConf.create({"text": value}).text == text


@pytest.mark.parametrize(
    "argument",
    ["decoding=beam", "--multirun", "input=null", "gold='a,b'", "checkpoint=???", "text", "-m"],
)
def test_other_arguments_are_left_to_hydra(argument):
    assert quote_plain_values([argument]) == [argument]


def run_script(*arguments, content=b"", cwd):
    command = [sys.executable, str(ROOT / "translate.py"), "device=cpu", *map(str, arguments)]
    return subprocess.run(
        command,
        input=content,
        capture_output=True,
        cwd=cwd,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_the_script_answers_bytes_on_standard_input_and_leaves_no_traces(checkpoint, tmp_path):
    content = b"\xef\xbb\xbfein hund\n\nzwei \xff hunde\xe2\x80\xa8\r\nja"

    done = run_script(f"checkpoint={checkpoint}", content=content, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 4
    assert done.stdout.split(b"\n")[1] == b""
    assert b"lines affected: 1\n" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_key_of_training_is_unknown(tmp_path):
    done = run_script("attention=dot", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == b"error: unknown key 'attention'; --cfg job lists the keys\n"


def test_scoring_files_of_translations_is_left_to_its_own_command(tmp_path):
    done = run_script("hypotheses=a.en", "reference=ref.en", cwd=tmp_path)

    assert done.returncode == 2
    assert (done.stdout, done.stderr.count(b"\n")) == (b"", 1)
    assert b"python -m seq2seq.cli.score" in done.stderr


@pytest.mark.parametrize("command", ["translate", "score"])
def test_a_sweep_is_refused_and_leaves_no_traces(tmp_path, command):
    script = [sys.executable, "-m", f"seq2seq.cli.{command}", "-m", "decoding=greedy,beam"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: -m: only train.py sweeps; run this command for each")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_not_an_error(checkpoint, tmp_path):
    command = f"'{sys.executable}' '{ROOT}/translate.py' device=cpu checkpoint='{checkpoint}'"
    many = b"ja\n" * 50_000

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} batch_size=8 | head -n 2"],
        input=many,
        capture_output=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )

    assert done.stdout.count(b"\n") == 2
    assert done.returncode == 0
    assert done.stderr == b""


def test_files_are_complete_even_if_the_pipe_is_closed(checkpoint, tmp_path):
    command = f"'{sys.executable}' '{ROOT}/translate.py' device=cpu checkpoint='{checkpoint}'"

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} batch_size=8 alignments=links.txt | head -n 2"],
        input=b"ja\n" * 2000,
        capture_output=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )

    assert done.stdout.count(b"\n") == 2
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "links.txt").read_bytes().count(b"\n") == 2000


def test_a_terminated_script_leaves_no_unfinished_file(checkpoint, tmp_path):
    command = [sys.executable, str(ROOT / "translate.py"), "device=cpu", f"checkpoint={checkpoint}"]
    with subprocess.Popen(
        [*command, "output=out.en"], stdin=subprocess.PIPE, cwd=tmp_path, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"ein hund\n")
        process.stdin.flush()
        while not list(tmp_path.iterdir()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)

        process.terminate()

        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["train.py", "translate.py"])
def test_ctrl_c_while_a_script_starts_is_one_line(tmp_path, script):
    (tmp_path / "hydra.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")

    done = subprocess.run(
        [sys.executable, str(ROOT / script)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, b"stopped by Ctrl-C\n")


def test_the_script_says_in_one_line_what_is_wrong(tmp_path):
    done = run_script("checkpoint=nowhere", "text=Zwei M\xe4nner, ein Hund", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().splitlines()[-1].startswith("error: checkpoint=nowhere")


def test_the_script_compares_the_links_of_a_reference_with_gold_ones(checkpoint, tmp_path):
    for name, line in (("a, b.de", "ein hund"), ("a.en", "ab cd"), ("a.align", "1-1 2p2")):
        (tmp_path / name).write_text(f"{line}\n")

    done = run_script(
        f"checkpoint={checkpoint}",
        *("input=a, b.de", "reference=a.en", "gold=a.align", "gold_base=1", "alignments=out.txt"),
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0
    assert done.stderr.startswith(b"alignment: precision ")
    assert (tmp_path / "out.txt").read_text().count("-") == 2
