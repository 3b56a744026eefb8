"""Lines of any bytes, from a file, a pipe or standard input; .gz is unpacked."""

import contextlib
import gzip
import io
import logging
import os
import select
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
"""bytes read at once"""
PATIENCE = 0.02
"""seconds; a pipe that gives nothing for so long is taken to pause"""


class LineReader:
    r"""Lines of a file or pipe, ended by `\n` and nothing else.

    A byte order mark at the start is dropped, as is one `\r` before `\n`. Bytes that are not
    UTF-8 are replaced by U+FFFD; when the lines are at their end, a warning counts those lines.
    """

    def __init__(self, file: BinaryIO, *, name: str) -> None:
        """Read from a file without a buffer of its own; `name` says in messages which it is."""
        self.name = name
        self._file = file
        # On Windows only sockets can be watched; there a window is always filled.
        self._can_wait = os.name != "nt" and not isinstance(file, io.BytesIO)
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._ended = False
        self._num_invalid = 0

    def __iter__(self) -> Iterator[str]:
        is_first = True
        while self._lines or self._fill():
            text = self._decode(self._lines.popleft())
            yield text.removeprefix("\ufeff") if is_first else text
            is_first = False
        if self._num_invalid:
            logger.warning(
                "%s: %d lines held bytes that are not UTF-8; they were replaced by U+FFFD",
                self.name,
                self._num_invalid,
            )

    def has_more(self) -> bool:
        """Say whether reading on, be it to the end, takes no waiting."""
        if self._lines or self._ended or not self._can_wait:
            return True
        readable, _, _ = select.select([self._file], [], [], PATIENCE)
        return bool(readable)

    def _fill(self) -> bool:
        """Read until there is a line; say whether there is."""
        while not self._lines and not self._ended:
            chunk = self._read()
            head, *tails = chunk.split(b"\n")
            self._partial.append(head)
            for tail in tails:
                self._lines.append(b"".join(self._partial).removesuffix(b"\r"))
                self._partial = [tail]
            if not chunk:
                self._ended = True
                if last := b"".join(self._partial):
                    self._lines.append(last)
        return bool(self._lines)

    def _read(self) -> bytes:
        try:
            # None: a pipe that somebody made non-blocking is empty for now, not at its end.
            while (chunk := self._file.read(CHUNK)) is None:
                select.select([self._file], [], [])
            return chunk
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{self.name}: not a whole gzip file ({error}); make it anew, "
                "or rename it if it is plain text"
            ) from error

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            self._num_invalid += 1
            return line.decode("utf-8", errors="replace")


@contextlib.contextmanager
def open_lines(path: str, *, key: str) -> Iterator[LineReader]:
    """Open a file or named pipe of lines, which are unpacked where its name ends with .gz.

    Args:
        path: of the file; `~` is the home directory.
        key: of the configuration, for messages.

    Raises:
        OSError: it cannot be read.
        ValueError: here or while lines are read, the gzip file is damaged.
    """
    name = f"{key}={path}"
    found = Path(path).expanduser()
    if not found.exists():
        raise FileNotFoundError(
            f"{name}: no such file; give an absolute path, or one that starts from {Path.cwd()}"
        )
    if found.is_dir():
        raise IsADirectoryError(f"{name} is a directory; give the name of a file")
    with found.open("rb", buffering=0) as file:
        if not is_packed(found):
            yield LineReader(file, name=name)
            return
        if found.is_file() and found.stat().st_size == 0:
            raise ValueError(f"{name}: not a gzip file but an empty one; make it anew")
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield LineReader(cast(BinaryIO, unpacked), name=name)


def parallel(
    sources: Iterable[str], references: Iterable[str], *, names: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Join lines with those of another stream.

    Args:
        sources: lines of the one.
        references: lines of the other.
        names: of both, for messages.

    Raises:
        ValueError: one of them goes on where the other has ended.
    """
    for number, pair in enumerate(zip_longest(sources, references), start=1):
        source, reference = pair
        if source is None or reference is None:
            shorter, longer = names if source is None else names[::-1]
            raise ValueError(
                f"{shorter} ends after {number - 1:,} lines but {longer} goes on with line "
                f"{number:,}; line for line they must belong together"
            )
        yield source, reference


@contextlib.contextmanager
def open_standard_input() -> Iterator[LineReader]:
    """Read standard input; it is not closed.

    Raises:
        OSError: it was closed before.
    """
    if sys.stdin is None:
        raise OSError("standard input is closed; give input=FILE or text=SENTENCE")
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as file:
        yield LineReader(file, name="standard input")


def is_packed(path: Path) -> bool:
    """Say whether a file is taken to be gzipped."""
    return path.suffix == ".gz"
