"""Lines of any bytes, from a file, a pipe or standard input; .gz is unpacked."""

import contextlib
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
from typing import BinaryIO, Protocol

from seq2seq.files.paths import expand_home
from seq2seq.files.text import BYTE_ORDER_MARK, damaged_gzip, is_gzip

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
"""bytes read at once"""
PATIENCE = 0.02
"""seconds; a pipe that gives nothing for so long is taken to pause"""
_GZIP = zlib.MAX_WBITS | 16  # how zlib is told of gzip's head and sum


class Bytes(Protocol):
    """What lines are read from."""

    def read(self, size: int, /) -> bytes | None:
        """Return some bytes, at the end none; None where there is nothing for now."""

    def fileno(self) -> int:
        """Return the descriptor to watch."""


class LineReader:
    r"""Lines of a file or pipe, ended by `\n` and nothing else.

    A byte order mark at the start is dropped, as is one `\r` before `\n`. Bytes that are not
    UTF-8 are replaced by U+FFFD; when the lines are at their end, a warning counts those lines.
    """

    def __init__(self, file: Bytes, *, name: str) -> None:
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
        while self._fill(patience=None):
            text = self._decode(self._lines.popleft())
            yield text.removeprefix(BYTE_ORDER_MARK) if is_first else text
            is_first = False
        if self._num_invalid:
            logger.warning(
                "%s: bytes that are not UTF-8 were replaced by U+FFFD; lines that held some: %d",
                self.name,
                self._num_invalid,
            )

    def has_more(self) -> bool:
        """Say whether there is another line that can be had without waiting."""
        return self._fill(patience=PATIENCE)

    def _fill(self, *, patience: float | None) -> bool:
        """Read until there is a line, or nothing comes for so long; say whether there is one."""
        while not self._lines and not self._ended:
            if self._can_wait and not select.select([self._file], [], [], patience)[0]:
                return False
            if (chunk := self._read()) is not None:
                self._take(chunk)
        return bool(self._lines)

    def _take(self, chunk: bytes) -> None:
        """Keep the lines that are whole with these bytes; no bytes are the end."""
        head, *tails = chunk.split(b"\n")
        self._partial.append(head)
        for tail in tails:
            self._lines.append(b"".join(self._partial).removesuffix(b"\r"))
            self._partial = [tail]
        if not chunk:
            self._ended = True
            if last := b"".join(self._partial):
                self._lines.append(last)

    def _read(self) -> bytes | None:
        try:
            return self._file.read(CHUNK)
        except (EOFError, zlib.error) as error:
            raise damaged_gzip(self.name, error) from error

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            self._num_invalid += 1
            return line.decode("utf-8", errors="replace")


class _Unpacked:
    """What a gzip file holds, as far as it has come.

    Of a pipe, `gzip.GzipFile` gives nothing before it can fill the size that it was asked for.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.fileno = file.fileno
        self._file = file
        self._member = zlib.decompressobj(wbits=_GZIP)

    def read(self, size: int) -> bytes | None:
        """Unpack up to so many packed bytes; None where they do not make one byte yet.

        Raises:
            EOFError: the file ends too early.
            zlib.error: it is damaged or no gzip file.
        """
        packed = self._file.read(size)
        if packed is None:
            return None
        if not packed and not self._member.eof:
            raise EOFError("it ends too early")
        return b"".join(self._unpack(packed)) or (None if packed else b"")

    def _unpack(self, packed: bytes) -> Iterator[bytes]:
        """Unpack members, of which a file may have several; zeros may fill what is between them."""
        while packed:
            if self._member.eof:
                packed = packed.lstrip(b"\0")
                if not packed:
                    return
                self._member = zlib.decompressobj(wbits=_GZIP)
            yield self._member.decompress(packed)
            packed = self._member.unused_data


@contextlib.contextmanager
def open_lines(path: str, *, key: str) -> Iterator[LineReader]:
    """Open a file or named pipe of lines, which are unpacked where its name ends with .gz.

    Args:
        path: of the file.
        key: of the configuration, for messages.

    Raises:
        OSError: it cannot be read.
        ValueError: here or while lines are read, the gzip file is damaged.
    """
    name = f"{key}={path}"
    found = expand_home(path, key=key)
    if not found.exists():
        raise FileNotFoundError(
            f"{name}: no such file; give an absolute path, or one that starts from {Path.cwd()}"
        )
    if found.is_dir():
        raise IsADirectoryError(f"{name} is a directory; give the name of a file")
    with found.open("rb", buffering=0) as file:
        yield LineReader(_Unpacked(file) if is_gzip(found) else file, name=name)


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
                f"{shorter} ends before line {number:,}, which {longer} has; line for line they "
                "must belong together"
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
