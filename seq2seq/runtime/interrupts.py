"""Ctrl-C as one line, where a traceback would say nothing more."""

import contextlib
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_in_one_line() -> Iterator[None]:
    """End the process at Ctrl-C with a line on stderr and the exit code that a shell expects."""
    try:
        yield
    except KeyboardInterrupt:
        if sys.stderr is not None:  # closed; print would turn to standard output
            print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
