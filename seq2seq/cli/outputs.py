"""Open the outputs of a command: standard output, pipes, or files that appear when complete."""

import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from seq2seq.files.atomic import NewFile, create_file, naming
from seq2seq.files.paths import expand_home
from seq2seq.files.text import is_gzip


def check_overwrites(*, read: dict[str, list[str]], written: dict[str, list[str]]) -> None:
    """Raise ValueError if an output would overwrite a file of another key.

    Args:
        read: Paths to read, by their configuration keys; a directory under `checkpoint` means its
            best.pt.
        written: Paths to write, by their configuration keys.
    """
    taken: dict[Path, str] = {}
    named = [(key, name) for key, names in (read | written).items() for name in names]
    for key, name in named:
        path = expand_home(name, key=key).resolve()
        if key == "checkpoint" and path.is_dir():
            path /= "best.pt"
        # Several keys may name the same device or pipe.
        if path.exists() and not path.is_file():
            continue
        if path in taken and key in written:
            raise ValueError(
                f"{key}={name} would overwrite the file of {taken[path]}; give {key} another name"
            )
        taken[path] = f"{key}={name}"


@contextlib.contextmanager
def open_output(path: str | None, *, key: str, new_file: NewFile) -> Iterator[BinaryIO]:
    """Open standard output, a device or a pipe, or a new file.

    A file whose name ends with .gz is compressed.

    Args:
        path: None means standard output.
        key: Configuration key of the path, for messages.
        new_file: Function that opens files; yielded by the `whole_files` block around this one.

    Raises:
        OSError: The output cannot be written.
    """
    if path is None:
        if sys.stdout is None:
            raise OSError(f"standard output is closed; give {key}=FILE")
        yield sys.stdout.buffer
        return
    final = expand_home(path, key=key)
    # A pipe such as /dev/fd/63, from >(...) in a shell, cannot be resolved.
    if final.is_file() or not final.exists():
        final = final.resolve()
    if final.exists() and not final.is_file():
        with create_file(final) as device_or_pipe:
            yield device_or_pipe
        return
    file = new_file(final)
    if not is_gzip(final):
        yield file
        return
    # Without a name and a time in the header, the same text gives the same bytes.
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
        yield cast(BinaryIO, packed)


def write(output: BinaryIO, content: bytes) -> bool:
    """Write without delay; return False if the reader has closed the pipe."""
    is_standard = sys.stdout is not None and output is sys.stdout.buffer
    try:
        with naming(Path("standard output")) if is_standard else contextlib.nullcontext():
            output.write(content)
            # A flush would end a block of a compressed file.
            if not isinstance(output, gzip.GzipFile):
                output.flush()
    except BrokenPipeError:
        # Otherwise closing the output would write the rest again and fail.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), output.fileno())
        return False
    return True
