"""Open text files, plain or gzipped, as bytes."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

BYTE_ORDER_MARK = "\ufeff"


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


def is_gzip(path: Path) -> bool:
    """Return whether the name of a file says that it is gzipped."""
    return path.suffix == ".gz"


def damaged_gzip(name: str, error: Exception) -> ValueError:
    """Return the error for a gzip file that is cut off, damaged or not gzipped."""
    return ValueError(
        f"{name}: damaged or incomplete gzip file ({error}); create it again, or rename it if it "
        "is plain text"
    )
