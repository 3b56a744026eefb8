"""Read sentences from a prompt."""

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator

_MARK = "> "


class Prompt:
    """The lines typed at a prompt, until end of file or an interrupt.

    If standard output is a terminal too and Python has readline, lines can be edited and earlier
    ones recalled.
    """

    name = "prompt"

    def __iter__(self) -> Iterator[str]:
        if isinstance(sys.stdin, io.TextIOWrapper):  # invalid bytes become U+FFFD, as in files
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        print("Type a sentence and Enter; Ctrl-D ends.", file=sys.stderr)
        # If standard output is a file, neither the prompt nor readline may write to it.
        edited = sys.stdout.isatty()
        if edited:
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")  # `input` uses it once it is imported
        while True:
            if not edited:
                print(_MARK, end="", file=sys.stderr, flush=True)
            try:
                yield input(_MARK if edited else "")
            except (EOFError, KeyboardInterrupt):
                print(file=sys.stderr)
                return

    def has_more(self) -> bool:
        """Return False, because each sentence is answered before the next one is typed."""
        return False
