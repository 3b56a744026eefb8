import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tiny_translator import write_checkpoint

from seq2seq.cli import score, translate
from seq2seq.cli.command_line import quote_plain_values
from seq2seq.cli.translation.config import TranslateConfig

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.mark.parametrize("key", ["alignments", "attention_plot", "gold", "dictionary"])
def test_any_path_passes_through_the_command_line_unchanged(key):
    [argument] = quote_plain_values([f"{key}=my b\xfccher, (all) = 'x'.txt"], TranslateConfig)

    value = OverridesParser.create().parse_override(argument).value()

    assert value == "my b\xfccher, (all) = 'x'.txt"


@pytest.mark.parametrize("key", ["checkpoint", "plugins", "input"])
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
    [argument] = quote_plain_values([f"{key}={given}"], TranslateConfig)

    override = OverridesParser.create().parse_override(argument)

    assert override.value() == paths
    assert not override.is_sweep_override()


@settings(max_examples=200)
@given(text=st.text(alphabet="a\xe4 ,'\"\\${}=\n[](x):\u2028", max_size=10))
def test_any_text_passes_through_the_command_line_unchanged(text):
    [argument] = quote_plain_values([f"text={text}"], TranslateConfig)

    value = OverridesParser.create().parse_override(argument).value()

    assert OmegaConf.create({"text": value}).text == text


@pytest.mark.parametrize(
    "argument",
    ["decoding=beam", "--multirun", "input=null", "gold='a,b'", "checkpoint=???", "text", "-m"],
)
def test_other_arguments_are_left_to_hydra(argument):
    assert quote_plain_values([argument], TranslateConfig) == [argument]


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


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Return what runs a command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    # The script asks Hydra for whole errors; the tests after this one need them as they were.
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def run_command(main, *arguments):
        monkeypatch.setattr(sys, "argv", [str(ROOT / "translate.py"), *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return code, *capfd.readouterr()

    return run_command


@pytest.mark.parametrize(
    ("main", "arguments", "line"),
    [
        (translate.main, ["attention=dot"], "unknown key 'attention'; --cfg job lists the keys\n"),
        (translate.main, ["hypotheses=a.en", "reference=r.en"], "hypotheses= is a key of the comm"),
        (translate.main, ["checkpoint=nowhere", "text=Zwei M\xe4nner, 1"], "checkpoint=nowhere"),
        (translate.main, ["-m", "decoding=greedy,beam"], "-m: only train.py sweeps; run this com"),
        (score.main, ["-m", "decoding=greedy,beam"], "-m: only train.py sweeps; run this command"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_traces(run, tmp_path, main, arguments, line):
    code, out, err = run(main, *arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {line}")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error_and_files_are_complete(checkpoint, tmp_path):
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


def test_the_script_compares_the_links_of_a_reference_with_gold_ones(run, checkpoint, tmp_path):
    for name, line in (("a, b.de", "ein hund"), ("a.en", "ab cd"), ("a.align", "1-1 2p2")):
        (tmp_path / name).write_text(f"{line}\n")

    code, out, err = run(
        translate.main,
        *("device=cpu", f"checkpoint={checkpoint}", "input=a, b.de", "reference=a.en"),
        *("gold=a.align", "gold_base=1", "alignments=out.txt"),
    )

    assert code == 0, err
    assert float(out) < 0
    assert err.startswith("alignment: precision ")
    assert (tmp_path / "out.txt").read_text().count("-") == 2
