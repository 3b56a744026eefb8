import importlib.util
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.cli.translation.prompt import Prompt

ROOT = Path(__file__).parents[3]
pty = pytest.importorskip("pty", reason="there are pseudo-terminals on POSIX alone")
PATIENCE = 20
"""seconds"""
ECHO = """
from seq2seq.cli.translation.prompt import Prompt
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


def test_a_file_as_standard_output_gets_only_answers():
    written, shown = type_at_prompt(b"ein hund\n", b"ja\n", to_file=True)

    assert written == b"'ein hund'\n'ja'\n"
    assert shown.count(b"> ") == 3


@pytest.mark.skipif(importlib.util.find_spec("readline") is None, reason="no readline here")
def test_lines_can_be_edited_and_recalled():
    up, left = b"\x1b[A", b"\x1b[D"

    _, shown = type_at_prompt(b"ein hnd" + left * 2 + b"u\n", up + b"e\n")

    assert b"'ein hund'" in shown
    assert b"'ein hunde'" in shown


def test_invalid_bytes_do_not_end_the_prompt():
    written, _ = type_at_prompt(b"a\xffb\n", "B\xe4r\n".encode(), to_file=True)

    assert written == b"'a\\ufffdb'\n'B\\xe4r'\n"


def test_an_interrupt_ends_the_prompt(monkeypatch):
    def interrupt(mark):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)

    assert list(Prompt()) == []


def test_a_line_is_answered_before_the_next_is_typed():
    assert Prompt().has_more() is False
