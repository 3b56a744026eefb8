"""Write files that are complete or absent, even if the process is killed; read them whole."""

import contextlib
import io
import os
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9a-f]{8,16}", re.DOTALL)

NewFile = Callable[[Path], BinaryIO]
"""Function that opens a file for writing, which appears at the path later."""


class _NamedFile(io.FileIO):
    """A file for writing whose errors name a path, unlike the errors of the system."""

    def __init__(self, path: Path, mode: str, *, shown: Path) -> None:
        self._shown = shown
        with naming(shown):
            super().__init__(path, mode)

    def write(self, content: "ReadableBuffer", /) -> int:
        with naming(self._shown):
            return super().write(content)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a path in the errors of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def create_file(path: Path, *, append: bool = False, shown: Path | None = None) -> BinaryIO:
    """Open a file for writing; every error names its path, even if the disk is full.

    Args:
        path: Path of the file; an existing file is replaced.
        append: Whether an existing file is continued instead.
        shown: The path that errors name; by default, `path`.
    """
    raw = _NamedFile(path, "ab" if append else "wb", shown=shown or path)
    return cast(BinaryIO, io.BufferedWriter(raw))


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing, which appears at `path` when the block ends without an error.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        with whole_files() as new_file:
            yield new_file(path)
    except RuntimeError as error:
        # torch.save hides the system's error behind one that does not mention the disk.
        cause = error.__context__
        if not isinstance(cause, OSError) or cause.errno is None:
            raise
        raise OSError(cause.errno, cause.strerror, str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8 as `whole_file` does."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def whole_files() -> Iterator[NewFile]:
    """Yield a function that opens files, which get their names together when all are on disk.

    Until then, each has a hidden name in the same directory. An error or an interrupt leaves
    everything as it was before; a killed process also leaves hidden files, which `is_temporary`
    recognizes.

    Raises:
        OSError: A file cannot be written.
    """
    opened: list[tuple[BinaryIO, Path, Path]] = []
    with contextlib.ExitStack() as stack:

        def new_file(path: Path) -> BinaryIO:
            hidden = temporary_path(path)
            stack.callback(hidden.unlink, missing_ok=True)
            file = stack.enter_context(create_file(hidden, shown=path))
            opened.append((file, hidden, path))
            return file

        yield new_file
        for file, _, path in opened:
            file.flush()
            with naming(path):
                os.fsync(file.fileno())
            file.close()  # Windows cannot rename an open file.
        for _, hidden, path in opened:
            with naming(path):
                hidden.replace(path)


def temporary_path(path: Path) -> Path:
    """Return a hidden path in the same directory that no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}")


def is_temporary(path: Path) -> bool:
    """Return whether `temporary_path` made a name; only such files may be deleted."""
    return _TEMPORARY.fullmatch(path.name) is not None


class DamagedFileError(ValueError):
    """The content of a file is not what was written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged or was not written by this program")


def load_archive(path: Path) -> object:
    """Read the tensors and plain types of a file onto the CPU; no code in it is run.

    Raises:
        OSError: The file cannot be read.
        MemoryError: The file is larger than the memory.
        DamagedFileError: A checksum is wrong, or torch.save did not write the file.
    """
    import torch  # loads slowly, and scoring does not need it

    path.stat()  # a missing file is not a damaged file
    if not path.is_file():  # reading a named pipe could wait forever
        raise DamagedFileError(path)
    with path.open("rb") as file:  # an error here does not mean damaged content
        try:
            with zipfile.ZipFile(file) as archive:
                # torch.save does not compress. It writes checksums, which torch.load ignores.
                is_stored = all(
                    each.compress_type == zipfile.ZIP_STORED for each in archive.infolist()
                )
                if not is_stored or archive.testzip() is not None:
                    raise ValueError("wrong checksum")
            content: object = torch.load(path, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        # zipfile, torch and pickle raise more than ten types of errors for a damaged file.
        except Exception as error:
            raise DamagedFileError(path) from error
    return content
