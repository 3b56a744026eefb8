"""Read text: lines of a file, a pipe or standard input, plain or gzipped."""

import codecs
import contextlib
import gzip
import io
import logging
import lzma
import os
import re
import select
import sys
import zlib
from bz2 import BZ2Decompressor
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from seq2seq.files.paths import ReadingError, expand_home, reading

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

logger = logging.getLogger(__name__)

BYTE_ORDER_MARK = "\ufeff"
_WIDE_SHARE = 0.4
"""Smallest share of zero bytes, and of others, that shows UTF-16 without a byte order mark."""
STANDARD_INPUT = Path("-")
MAX_LINE = 1 << 20
"""Maximum number of bytes in a line; longer lines are refused, to bound the memory."""
CHUNK = 1 << 16
"""Number of bytes that are read at once."""
_PACKED_CHUNK = 1 << 9
"""Number of compressed bytes that are read at once, which may become thousands of times as many."""
_LARGEST_WINDOW = 1 << 28
"""Maximum number of bytes of memory for unpacking a file."""
PATIENCE = 0.02
"""Seconds without new bytes after which a pipe counts as paused."""
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of gzip files that are truncated, damaged or not compressed."""


class _Decompressor(Protocol):
    """The interface that the decompressors of lzma, bz2 and zstandard share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Unpacked(io.RawIOBase):
    """The content of a compressed file, of which only a small part is in memory."""

    def __init__(self, file: BinaryIO, create: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._create = create
        self._decompressor = create()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        while not self._content:
            unused = self._decompressor.unused_data if self._decompressor.eof else b""
            packed = unused or self._file.read(_PACKED_CHUNK)
            if self._decompressor.eof:
                if not packed:
                    return 0
                self._decompressor = self._create()
            elif not packed:
                raise EOFError("it ends too early")
            with reading(self._file.name):
                self._content = memoryview(self._decompressor.decompress(packed))
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._content))
        target[:size], self._content = self._content[:size], self._content[size:]
        return size


def _create_zstandard() -> _Decompressor:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    ".bz2": BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(memlimit=_LARGEST_WINDOW),
    ".zst": _create_zstandard,
}
PACKED = (".gz", *_DECOMPRESSORS)
"""Endings of the files that `open_text` unpacks."""


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    r"""Open a file as bytes, plain or with an ending of `PACKED`; only `\n` ends a line.

    Raises:
        ReadingError: A compressed file is damaged, which can also be found while it is read.
        ModuleNotFoundError: The file ends in .zst, and zstandard is not installed.
    """
    create = _DECOMPRESSORS.get(path.suffix.lower())
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            if create is not None:
                file = io.BufferedReader(_Unpacked(cast(BinaryIO, file), create))
            yield cast(BinaryIO, file)
    except _DAMAGE as error:
        raise ReadingError(path, error) from error


@contextlib.contextmanager
def open_characters(
    path: Path, *, declaration: re.Pattern[bytes] | None = None
) -> Iterator[io.TextIOWrapper]:
    r"""Open a file as `open_text` does, or standard input if it is `-`, and decode it.

    A file with a byte order mark is UTF-8 or UTF-16. Another file has the encoding that it
    declares, or UTF-8. Only `\n` ends a line. Bytes that cannot be decoded become surrogates (as
    with `errors="surrogateescape"`), or U+FFFD if the file can declare its encoding.

    Args:
        path: Path of the file.
        declaration: Pattern of the declaration of an encoding, in its first group.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is no text (`check_is_text`), or is damaged.
    """
    is_standard = path == STANDARD_INPUT
    # Closing the file leaves standard input open.
    with open(0, "rb", closefd=False) if is_standard else open_text(path) as file:
        start = cast(io.BufferedReader, file).peek(CHUNK)
        encoding = "utf-8-sig"
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        else:
            check_is_text("standard input" if is_standard else str(path), start)
            named = declaration and declaration.search(start)
            if named and not start.startswith(codecs.BOM_UTF8):
                encoding = _known_encoding(named[1].decode("ascii"), path)
        errors = "surrogateescape" if declaration is None and encoding != "utf-16" else "replace"
        yield io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="\n")


def _known_encoding(name: str, path: Path) -> str:
    """Return an encoding that a file declares in ASCII; UTF-8 with a warning if it is unknown."""
    try:
        known = codecs.lookup(name).name
        is_usual = known in ("utf-8", "ascii") or known.startswith(("utf-16", "utf-32"))
        if is_usual or b"<a>".decode(name, "replace") == "<a>":
            return "utf-8-sig" if is_usual else name
    except (LookupError, UnicodeError):  # some codecs are not for text
        pass
    logger.warning("%s: the encoding %r is unknown; it is read as UTF-8", path, name)
    return "utf-8-sig"


def count_lines(path: Path, *, name: str) -> int:
    """Return the number of lines of a plain or .gz file, which messages call `name`.

    Raises:
        ValueError: The file is no text (`check_is_text`), or a damaged .gz file.
    """
    with open_text(path) as file:
        last, chunk = b"\n", file.read(CHUNK)  # a line might not fit into memory
        check_is_text(name, chunk)
        num_ends = 0
        while chunk:
            num_ends += chunk.count(b"\n")
            last, chunk = chunk, file.read(CHUNK)
    return num_ends + (not last.endswith(b"\n"))


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a file that this package wrote: UTF-8 text, lines end at `\n` only."""
    *lines, last = path.read_bytes().decode("utf-8").split("\n")
    return [*lines, last] if last else lines


def decode_line(line: bytes, *, number: int, errors: str = "strict") -> str:
    r"""Decode a line of UTF-8 text.

    The line end, `\n` or `\r\n`, is removed, and in the first line a byte order mark too.

    Args:
        line: The bytes of the line.
        number: Number of the line in its file, from 1.
        errors: Treatment of bytes that are not UTF-8, as `bytes.decode` takes it.

    Raises:
        UnicodeDecodeError: The line is not UTF-8 and `errors` is "strict".
    """
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors)
    return text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


_PACKED = (b"\x1f\x8b", b"BZh91AY&SY", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""How gzip, bzip2, xz, Zstandard and zip files begin."""


def check_is_text(name: str, start: bytes) -> None:
    r"""Raise ReadingError if a file is UTF-16 or compressed, or if `\r` alone ends its lines.

    Args:
        name: Name of the file in messages.
        start: The first line with its end, or more.
    """
    if start.startswith(_PACKED):
        fault = (
            "the file is compressed; unpack it, or end its name in .gz if it is gzip, or in .xlsx "
            "or .ods if it is a spreadsheet for seq2seq-prepare"
        )
    elif encoding := _wide_encoding(start):
        fault = f"the text is {encoding}, not UTF-8; convert it with iconv -f {encoding} -t UTF-8"
    elif b"\n" not in start and b"\r" in start.removesuffix(b"\r"):
        fault = r"the lines end in \r alone; convert them with tr '\r' '\n'"
    else:
        return
    raise ReadingError(name, ValueError(fault))


_FORMATS = (
    *(".po", ".pot", ".xlf", ".xliff", ".tmx", ".xml", ".html", ".htm", ".csv", ".json", ".jsonl"),
    *(".srt", ".vtt", ".ass", ".docx", ".odt", ".xlsx", ".ods", ".pdf", ".rtf", ".properties"),
    *(".strings", ".resx", ".yaml", ".yml", ".toml", ".ini"),
)
"""Endings of files whose lines are not texts."""


def check_is_plain(path: Path, *, name: str) -> None:
    """Raise ValueError if the name of a file says that it has more than a text on each line.

    Args:
        path: Path of the file.
        name: Its name in messages.
    """
    suffix = Path(unpacked_name(path).lower()).suffix
    if suffix in _FORMATS:
        raise ValueError(
            f"{name}: a {suffix} file is not plain text with a sentence on each line; docs/how-to/"
            "files.md shows how to translate its texts and write them back, and seq2seq-prepare "
            "makes a corpus of tables and of .tmx, .xlf and .po files"
        )


def _wide_encoding(start: bytes) -> str | None:
    """Return the name of the encoding if a text begins as UTF-16 does.

    Example:
        >>> _wide_encoding("Hund".encode("utf-16-be")), _wide_encoding(b"Hund")
        ('UTF-16BE', None)
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # neither occurs in UTF-8
        return "UTF-16"
    if len(start) < 4 or not _WIDE_SHARE < start.count(0) / len(start) <= 1 - _WIDE_SHARE:
        return None
    return "UTF-16LE" if start[1::2].count(0) > start[::2].count(0) else "UTF-16BE"


def check_length(size: int, *, most: int, name: object, number: int) -> None:
    """Raise ReadingError if a line is too long.

    Args:
        size: Number of bytes in the line.
        most: Largest number of bytes.
        name: The file.
        number: Number of the line.
    """
    if size > most:
        fault = (
            f"the line has more than {most:,} bytes, the limit; put one sentence on each line, or "
            "check that the file is text"
        )
        raise ReadingError(f"{name}:{number}", ValueError(fault))


def unpacked_name(path: Path) -> str:
    """Return the name of a file without an ending of `PACKED`."""
    return path.stem if path.suffix.lower() in PACKED else path.name


def is_gzip(path: Path) -> bool:
    """Return whether the name of a file says that it is gzipped."""
    return path.suffix.lower() == ".gz"


class LineReader:
    r"""Iterator over the lines of a file or pipe, which end at `\n` only.

    A line of more than `MAX_LINE` bytes raises ValueError when it is reached, and so does a first
    line that is no text. A byte order mark at the start and a `\r` at the end of a line are
    removed. Bytes that are not UTF-8 are replaced by U+FFFD; a warning at the end counts the lines
    with such bytes and names the first.
    """

    def __init__(self, file: io.FileIO | io.BytesIO | gzip.GzipFile, *, name: str) -> None:
        """Read from an unbuffered or gzipped file, which messages call `name`."""
        self.name = name
        self._file = file
        # Windows can only wait for sockets.
        self._can_wait = os.name != "nt" and isinstance(file, io.FileIO)
        self._lines: deque[bytes] = deque()
        self._partial = b""
        self._ended = False
        self._num_invalid, self._first_invalid = 0, 0

    def __iter__(self) -> Iterator[str]:
        number = 0
        try:
            while self._fill(patience=None):
                number += 1
                line = self._lines.popleft()
                check_length(len(line), most=MAX_LINE, name=self.name, number=number)
                if number == 1:
                    is_all = self._ended and not self._lines
                    check_is_text(self.name, line if is_all else line + b"\n")
                yield self._decode(line, number)
        finally:  # the reader of a pipe may close it early
            if self._num_invalid:
                logger.warning(
                    "%s: bytes that are not UTF-8 were replaced by U+FFFD; lines affected: %d (the "
                    "first: line %d)",
                    self.name,
                    self._num_invalid,
                    self._first_invalid,
                )

    def has_more(self) -> bool:
        """Return whether another line is available without waiting."""
        return self._fill(patience=PATIENCE)

    def _fill(self, *, patience: float | None) -> bool:
        """Read until there is a line or nothing came for `patience` seconds."""
        while not self._lines and not self._ended:
            if not self._is_ready(patience):
                return False
            if (chunk := self._read()) is not None:
                self._split(chunk)
        return bool(self._lines)

    def _is_ready(self, patience: float | None) -> bool:
        """Wait until the file can be read, or return False after `patience` seconds."""
        if not self._can_wait:
            return True
        waiting = select.poll()  # unlike select.select, it works with any number of open files
        waiting.register(self._file, select.POLLIN)
        return bool(waiting.poll(None if patience is None else 1000 * patience))

    def _split(self, chunk: bytes) -> None:
        """Store the lines that the chunk completes; an empty chunk ends the file."""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self._lines.extend(lines)
        if not chunk or len(self._partial) > MAX_LINE:
            self._ended = True
            if self._partial:
                self._lines.append(self._partial)

    def _read(self) -> bytes | None:
        with reading(self.name):
            return self._file.read(CHUNK)

    def _decode(self, line: bytes, number: int) -> str:
        try:
            return decode_line(line, number=number)
        except UnicodeDecodeError:
            self._num_invalid += 1
            self._first_invalid = self._first_invalid or number
            return decode_line(line, number=number, errors="replace")


@contextlib.contextmanager
def open_lines(path: str, *, key: str) -> Iterator[LineReader]:
    """Open a file or named pipe of lines; unpack it if its name ends with .gz.

    Args:
        path: Path of the file.
        key: Configuration key of the path, for messages.

    Raises:
        OSError: The file cannot be read.
        ValueError: The name of the file says that it is not plain text, or the gzip file is
            damaged; this can also be found while lines are read.
    """
    name = f"{key}={path}"
    found = expand_home(path, key=key)
    check_is_plain(found, name=name)
    with gzip.open(found) if is_gzip(found) else found.open("rb", buffering=0) as file:
        yield LineReader(file, name=name)


def parallel(
    sources: Iterable[str],
    references: Iterable[str],
    *,
    names: tuple[str, str],
    rule: str = "both need the same number of lines",
) -> Iterator[tuple[str, str]]:
    """Pair the lines of two streams.

    Args:
        sources: Lines of the first stream.
        references: Lines of the second stream.
        names: Names of both streams, for messages.
        rule: What the lines must fulfil, for messages.

    Raises:
        ValueError: One stream has more lines than the other.
    """
    for number, pair in enumerate(zip_longest(sources, references), start=1):
        source, reference = pair
        if source is None or reference is None:
            shorter, longer = names if source is None else names[::-1]
            raise ValueError(f"{shorter} ends before line {number:,}, but {longer} goes on; {rule}")
        yield source, reference


@contextlib.contextmanager
def open_standard_input() -> Iterator[LineReader]:
    """Open standard input, which stays open afterwards.

    Raises:
        OSError: Standard input is closed.
    """
    if sys.stdin is None:
        raise OSError("standard input is closed; give input=FILE or text=SENTENCE")
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as file:
        yield LineReader(file, name="standard input")
