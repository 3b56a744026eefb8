"""Where translate.py writes: standard output, a pipe, or files that are whole; .gz is packed."""

import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, cast

from seq2seq.files.atomic import NewFile
from seq2seq.files.paths import expand_home
from seq2seq.files.text import is_gzip


@contextlib.contextmanager
def open_output(path: str | None, *, key: str, new_file: NewFile) -> Iterator[BinaryIO]:
    """Open standard output, a device or a pipe, or a new file.

    A file whose name ends with .gz is packed.

    Args:
        path: None means standard output.
        key: of the configuration, for messages.
        new_file: opens files, of `whole_files`, which is left after this.

    Raises:
        OSError: it cannot be written.
    """
    if path is None:
        if sys.stdout is None:
            raise OSError(f"standard output is closed; give {key}=FILE")
        yield sys.stdout.buffer
        return
    final = _check_output(path, key=key)
    if final.exists() and not final.is_file():
        with final.open("wb") as device_or_pipe:
            yield device_or_pipe
        return
    with _pack(new_file(final), final) as content:
        yield content


def write(output: BinaryIO, content: bytes) -> bool:
    """Write at once; say whether somebody still reads."""
    try:
        output.write(content)
        # A flush would end a block of a packed file, which nobody reads before its end.
        if not isinstance(output, gzip.GzipFile):
            output.flush()
    except BrokenPipeError:
        # Else what is left would be tried again when the output is closed, and complained of.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), output.fileno())
        return False
    return True


def _check_output(path: str, *, key: str) -> Path:
    """Return where a file is to be written; raise OSError where that cannot be."""
    final = expand_home(path, key=key)
    # The name of a pipe, /dev/fd/63 of a shell's >(...), leads to no path.
    if final.is_file() or not final.exists():
        final = final.resolve()
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{key}={path}: there is no directory {final.parent}; make it")
    if final.is_dir():
        raise IsADirectoryError(f"{key}={path} is a directory; give the name of a file")
    return final


def _pack(file: BinaryIO, final: Path) -> AbstractContextManager[BinaryIO]:
    if not is_gzip(final):
        return contextlib.nullcontext(file)
    # Without name and time the same text is packed to the same bytes.
    packed = gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)
    return cast(AbstractContextManager[BinaryIO], packed)
