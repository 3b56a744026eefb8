"""The error line of a process in a run of several; torchrun then ends the other processes."""

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PRECEDENCE = 1.0
"""Seconds that the processes after rank 0 wait before they report an error that all processes have.
By then, torchrun has ended the other processes on the machine."""
_TIME_OF_CAUSE = 3.0
"""Seconds to wait for a lost process to report the cause."""


class LostProcessError(RuntimeError):
    """Another process of the run has ended; that process knows the cause."""


def is_first_process() -> bool:
    """Return whether this is the process that writes files; it needs no torch."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def lost_processes_named() -> Iterator[None]:
    """Turn the error of an exchange with a process that has ended into LostProcessError."""
    try:
        yield
    except LostProcessError:
        raise
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise LostProcessError(f"another process of the run has ended: {reason}") from error


def with_process_name(text: str) -> str:
    """Return an error with the number and host of this process, unless it is the first process."""
    if is_first_process():
        return text
    return f"process {os.environ['RANK']} on {socket.gethostname()}: {text}"


def report_failure(text: str, *, is_consequence: bool) -> None:
    """Print the error that ends this process, unless torchrun ends the process before.

    The first process reports an error that all processes have. A process that failed by itself
    reports before the processes that lost contact with it.

    Args:
        text: The error in one line.
        is_consequence: Whether this process failed because another one ended.
    """
    if is_consequence:
        text += "; its own lines or those of torchrun say why"
        time.sleep(_TIME_OF_CAUSE)
    for number in ("RANK", "LOCAL_RANK"):
        if os.environ.get(number, "0") != "0":
            time.sleep(_PRECEDENCE)
    text = with_process_name(text)
    print(f"error: {text}", file=sys.stderr)
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        # torchrun repeats the text when it ends; its own @record would write a traceback.
        content = {"message": text, "timestamp": int(time.time())}
        Path(path).write_text(json.dumps(content), encoding="utf-8")
