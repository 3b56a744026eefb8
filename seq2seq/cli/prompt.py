"""The prompt at which sentences are typed."""

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator

_MARK = "> "


class Prompt:
    """Lines that are typed, until end of file or an interrupt; each is answered at once.

    Where standard output is a terminal too and Python has readline, lines can be edited and
    earlier ones recalled.
    """

    name = "prompt"

    def __iter__(self) -> Iterator[str]:
        _take_any_bytes()
        print("Type a sentence and Enter; Ctrl-D ends.", file=sys.stderr)
        # Standard output may go to a file, which shall have translations alone: neither a
        # prompt nor what readline writes for the terminal.
        edited = sys.stdout.isatty()
        if edited:
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")  # from here on `input` uses it
        while True:
            if not edited:
                print(_MARK, end="", file=sys.stderr, flush=True)
            try:
                yield input(_MARK if edited else "")
            except (EOFError, KeyboardInterrupt):
                print(file=sys.stderr)
                return

    def has_more(self) -> bool:
        """Let no sentence wait for the next one."""
        return False


def _take_any_bytes() -> None:
    """Read standard input as files are read: UTF-8, with U+FFFD for what is not."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
