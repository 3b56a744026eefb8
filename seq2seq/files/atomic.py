"""Files that are there whole or not at all, whenever the process that writes them ends."""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

NewFile = Callable[[Path], BinaryIO]
"""opens a file to write, which becomes the path later"""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write, which becomes `path` when this is left; an error leaves nothing new.

    Raises:
        OSError: it cannot be written.
    """
    try:
        with whole_files() as new_file:
            yield new_file(path)
    except RuntimeError as error:
        # What torch.save raises says nothing of the disk; the system's error stands behind it.
        cause = error.__context__
        if not isinstance(cause, OSError) or cause.errno is None:
            raise
        raise OSError(cause.errno, cause.strerror, str(path)) from error


@contextlib.contextmanager
def whole_files() -> Iterator[NewFile]:
    """Yield what opens files, which get their names together when all of them are on disk.

    Until then they have hidden names beside their own. An error or an interrupt leaves what was
    there before; a process that is killed leaves hidden files too, of which `is_temporary` tells.

    Raises:
        OSError: one cannot be written.
    """
    opened: list[tuple[BinaryIO, Path, Path]] = []
    with contextlib.ExitStack() as stack:

        def new_file(path: Path) -> BinaryIO:
            hidden = temporary_path(path)
            stack.callback(hidden.unlink, missing_ok=True)
            file = stack.enter_context(hidden.open("wb"))
            opened.append((file, hidden, path))
            return file

        yield new_file
        for file, _, _ in opened:
            file.flush()
            os.fsync(file.fileno())
            file.close()  # what is open has no other name on Windows
        for _, hidden, path in opened:
            hidden.replace(path)


def temporary_path(path: Path) -> Path:
    """Return a hidden path beside this one, which no other process takes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")


def is_temporary(path: Path) -> bool:
    """Say whether a name is one of `temporary_path`: nothing else may be deleted."""
    return re.fullmatch(r"\..+\.[0-9]+-[0-9a-f]{8}", path.name) is not None
