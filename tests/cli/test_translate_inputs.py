import gzip
import importlib.util
import io
import logging
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_translator import GREEDY, make_translate_config, translated

from seq2seq.cli.translate import format_translation
from seq2seq.cli.translate_inputs import MANY, Inputs, Prompt, open_progress
from seq2seq.files.text import LineReader
from seq2seq.inference.translations import Translation

pty = pytest.importorskip("pty", reason="there are pseudo-terminals on POSIX alone")


def reader(name, *lines):
    return LineReader(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), name=name)


class Slow:
    """An input whose lines arrive one by one."""

    name = "slow"

    def __iter__(self):
        yield from ("a", "b")

    def has_more(self):
        return False


def test_inputs_have_all_lines_with_their_references_and_know_their_places():
    sources = [("a", "A1", "A2"), ("b",), ("c", "C1")]
    references = [("d", "D1", "D2"), ("e",), ("f", "F1")]
    alone = Inputs([reader(*each) for each in sources])
    together = Inputs(*([reader(*each) for each in files] for files in (sources, references)))

    assert list(alone) == [("A1", ""), ("A2", ""), ("C1", "")]
    assert list(together) == [("A1", "D1"), ("A2", "D2"), ("C1", "F1")]
    assert [together.place(index) for index in range(3)] == [(0, 0), (0, 1), (2, 0)]
    assert together.line_name(2) == "c:1"


def test_an_input_and_its_reference_have_equally_many_lines():
    inputs = Inputs([reader("a", "1"), reader("b", "1", "2")], [reader("c", "1"), reader("d", "1")])

    with pytest.raises(ValueError, match=r"^d ends before line 2, but b goes on;"):
        list(inputs)


def test_the_current_input_says_whether_its_next_line_has_arrived():
    inputs = Inputs([reader("a", "A1", "A2"), Slow()])

    found = [(line, inputs.has_more()) for line, _ in inputs]

    assert found == [("A1", True), ("A2", False), ("a", False), ("b", False)]


ROOT = Path(__file__).parents[2]
PATIENCE = 20
"""seconds"""
ECHO = """
from seq2seq.cli.translate_inputs import Prompt
for line in Prompt(): print(ascii(line), flush=True)
"""


def type_at_prompt(*keys, to_file=False):
    """Type lines, each when there is a prompt for it; return what stdout and stderr got.

    Args:
        keys: bytes of each line.
        to_file: standard output goes to a file instead of the terminal.
    """
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ECHO],
        stdin=slave,
        stdout=subprocess.PIPE if to_file else slave,
        stderr=slave,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(slave)
        shown = b""
        for place, line in enumerate([*keys, b"\x04"], start=1):
            while shown.count(b"> ") < place:
                if not select.select([master], [], [], PATIENCE)[0]:
                    process.kill()
                    pytest.fail(f"there is no prompt in {shown!r}")
                shown += os.read(master, 1000)
            os.write(master, line)
        while chunk := read_until_closed(master):
            shown += chunk
        os.close(master)
        written = b"" if process.stdout is None else process.stdout.read()
    assert process.returncode == 0
    return written, shown


def read_until_closed(master):
    try:
        return os.read(master, 1000)
    except OSError:  # Linux raises it when no process has the terminal open
        return b""


def test_a_file_as_standard_output_gets_only_answers_and_invalid_bytes_do_not_end_the_prompt():
    written, shown = type_at_prompt(b"a\xffb\n", "B\xe4r\n".encode(), to_file=True)

    assert written == b"'a\\ufffdb'\n'B\\xe4r'\n"
    assert shown.count(b"> ") == 3


@pytest.mark.skipif(importlib.util.find_spec("readline") is None, reason="no readline here")
def test_lines_can_be_edited_and_recalled():
    up, left = b"\x1b[A", b"\x1b[D"

    _, shown = type_at_prompt(b"ein hnd" + left * 2 + b"u\n", up + b"e\n")

    assert b"'ein hund'" in shown
    assert b"'ein hunde'" in shown


def test_an_interrupt_ends_the_prompt(monkeypatch):
    def interrupt(mark):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)

    assert list(Prompt()) == []


def formatted(output_format, translation, *, index, **changes):
    config = make_translate_config("run", decoding=GREEDY, output_format=output_format, **changes)
    return format_translation(config, translation, index=index)


def make_translation(*texts):
    translation = translated("Bär \u2028 x", "")
    hypotheses = [
        translation.best._replace(text=text, score=-1.5 - rank, log_probability=-3.0)
        for rank, text in enumerate(texts)
    ]
    return Translation("", [translation._replace(hypotheses=hypotheses)])


def test_nbest_has_the_input_line_the_text_and_the_score_of_each_hypothesis():
    content = formatted("nbest", make_translation("a b", ""), index=4)

    assert content == b"4 ||| a b ||| -1.500000\n4 |||  ||| -2.500000\n"


def test_the_separator_of_nbest_is_escaped_in_a_text():
    content = formatted("nbest", make_translation("a ||| b", "||||"), index=4).decode()

    rows = [line.split(" ||| ") for line in content.splitlines()]
    assert [len(row) for row in rows] == [3, 3]
    assert [row[1].replace("&#124;", "|") for row in rows] == ["a ||| b", "||||"]
    assert formatted("text", make_translation("a ||| b"), index=4) == b"a ||| b\n"


def test_the_text_of_a_scored_reference_is_its_log_probability():
    content = formatted("text", make_translation("ein B\xe4r"), index=4, reference="r")

    assert content == b"-3.0000\n"


@pytest.mark.parametrize("output_format", ["text", "nbest", "json"])
def test_a_lone_surrogate_does_not_stop_the_output(output_format):
    content = formatted(output_format, make_translation("a\ud800"), index=0)

    assert content.decode("utf-8").count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def use_terminal(monkeypatch):
    """Make standard error a terminal and return it; standard input is none."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return terminal


def run(config, sentences):
    with open_progress(config) as progress:
        progress.advance([translated(sentence, "") for sentence in sentences])
        progress.log_speed()


def test_the_bar_reaches_100_percent_at_the_end(tmp_path, monkeypatch):
    lines = ["ein B\xe4r", "ja", "nein und ja"]
    (tmp_path / "a.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config = make_translate_config("run", input=str(tmp_path / "a.de"))
    terminal = use_terminal(monkeypatch)

    with open_progress(config) as progress:
        for line in lines:
            assert "100%|" not in terminal.getvalue()
            progress.advance([translated(line, "")])
        progress.log_speed()

    assert "100%|" in terminal.getvalue()
    assert "3 sentences" in terminal.getvalue()
    assert " sentences/s [" in terminal.getvalue()


def test_without_a_known_size_only_sentences_are_counted(tmp_path, monkeypatch):
    terminal = use_terminal(monkeypatch)
    plain, packed = tmp_path / "a.de", tmp_path / "b.gz"
    plain.write_bytes(b"ja\n")
    packed.write_bytes(gzip.compress(b"ja\n"))

    for given in (None, [str(plain), str(packed)]):
        terminal.truncate(0)
        run(make_translate_config("run", input=given), ["ja"] * 3)

        assert "3 sentences, " in terminal.getvalue()
        assert "%" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("changes", "terminals", "is_shown"),
    [
        pytest.param({}, "stderr", True, id="on a terminal"),
        pytest.param({"text": "ja"}, "stderr", False, id="for a text"),
        pytest.param({}, "stderr stdin", False, id="at a prompt"),
        pytest.param({}, "stderr stdout", False, id="between translations"),
        pytest.param({"output": "out.txt"}, "stderr stdout", True, id="beside a file"),
        pytest.param({}, "", False, id="in a file"),
    ],
)
def test_a_bar_shows(changes, terminals, is_shown, monkeypatch):
    for name in ("stderr", "stdin", "stdout"):
        monkeypatch.setattr(sys, name, Terminal() if name in terminals else io.StringIO())

    run(make_translate_config("run", **changes), ["ja"])

    assert ("1 sentence, " in sys.stderr.getvalue()) == is_shown


@pytest.mark.parametrize(("num_sentences", "num_lines"), [(MANY - 1, 0), (MANY, 1)])
def test_the_speed_of_many_sentences_is_logged_at_the_end(
    caplog, num_sentences, num_lines, monkeypatch
):
    use_terminal(monkeypatch)
    with caplog.at_level(logging.INFO):
        run(make_translate_config("run"), ["ja"] * num_sentences)

    assert len(caplog.messages) == num_lines
    line = rf"{num_sentences} sentences in \d+\.\d s \([\d,]+\.\d sentences/s\)"
    assert all(re.fullmatch(line, message) for message in caplog.messages)


def test_a_warning_does_not_mix_with_the_bar(monkeypatch):
    terminal = use_terminal(monkeypatch)
    handler = logging.StreamHandler(terminal)
    logging.getLogger().addHandler(handler)
    try:
        with open_progress(make_translate_config("run")) as progress:
            progress.advance([translated("ja", "")])
            logging.getLogger().warning("beware")
    finally:
        logging.getLogger().removeHandler(handler)

    [line] = [line for line in terminal.getvalue().split("\n") if "beware" in line]
    assert line.rpartition("\r")[2] == "beware"


def test_bytes_that_are_not_utf_8_are_counted_also_if_the_rest_is_not_read(caplog):
    lines = iter(LineReader(io.BytesIO(b"\xff\nja\n\xff\n"), name="a"))

    next(lines), next(lines)
    lines.close()

    [message] = caplog.messages
    assert message.endswith("; lines affected: 1 (the first: line 1)")
