import logging
import subprocess
import sys

import pytest

from seq2seq.runtime.console import ConsoleFormatter


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (logging.INFO, "3 of 4"),
        (logging.WARNING, "warning: 3 of 4"),
        (logging.ERROR, "error: 3 of 4"),
    ],
)
def test_only_warnings_and_errors_begin_with_their_level(level, text):
    record = logging.LogRecord("a", level, "a.py", 1, "%d of %d", (3, 4), None)

    assert ConsoleFormatter("%(message)s").format(record) == text


def test_log_lines_go_to_stderr():
    code = (
        "import logging; from seq2seq.runtime.console import log_to_stderr; log_to_stderr(); "
        "logging.debug('a'); logging.info('b'); logging.warning('c')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("", "b\nwarning: c\n")
