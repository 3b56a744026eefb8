"""Open text files, plain or gzipped, and decode their lines."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

BYTE_ORDER_MARK = "\ufeff"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, neither of which occurs in UTF-8."""
MAX_LINE = 1 << 20
"""Bytes; a longer line is refused, since memory grows with it."""


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    r"""Open a file, plain or .gz, as bytes, whose lines end at `\n` only.

    Raises:
        ValueError: A .gz file is damaged; this can also be found while it is read.
    """
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged_gzip(str(path), error) from error


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


def too_long(name: str, number: int) -> ValueError:
    """Return the error for a line of more than `MAX_LINE` bytes."""
    return ValueError(
        f"{name}:{number}: the line has more than {MAX_LINE:,} bytes, the limit; a line is a "
        "sentence: break it, or check that the file is text"
    )


def is_gzip(path: Path) -> bool:
    """Return whether the name of a file says that it is gzipped."""
    return path.suffix == ".gz"


def damaged_gzip(name: str, error: Exception) -> ValueError:
    """Return the error for a gzip file that is cut off, damaged or not gzipped."""
    return ValueError(
        f"{name}: damaged or incomplete gzip file ({error}); create it again, or rename it if it "
        "is plain text"
    )
