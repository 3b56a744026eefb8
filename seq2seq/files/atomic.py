"""Write files that are complete or absent, even if the process is killed; read them whole."""

import contextlib
import io
import os
import re
import secrets
import shutil
import signal
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from seq2seq.files.paths import ReadingError, reading

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_TEMPORARY = re.compile(r"\.(.+)\.[0-9]+-[0-9a-f]{8,16}", re.DOTALL)

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
        if error.errno is not None:  # our own errors have a text, which a name would replace
            error.filename = str(path)
        raise


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
        raise (cause if isinstance(cause, OSError) else error) from None


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8 as `whole_file` does."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def whole_files() -> Iterator[NewFile]:
    """Yield a function that opens files, which get their names together when all are on disk.

    Until then, each has a hidden name in the same directory. An error or a signal leaves everything
    as it was before. A process that is killed leaves hidden files; the next one that writes a file
    of the same name deletes them.

    Raises:
        OSError: A file cannot be written.
    """
    opened: list[tuple[BinaryIO, Path, Path]] = []
    with contextlib.ExitStack() as stack:

        def new_file(path: Path) -> BinaryIO:
            _remove_abandoned(path)
            hidden = temporary_path(path)
            stack.callback(_unlink, hidden)
            file = stack.enter_context(create_file(hidden, shown=path))
            stack.enter_context(_marked_as_used(hidden))
            opened.append((file, hidden, path))
            return file

        yield new_file
        for file, _, path in opened:
            file.flush()
            with naming(path):
                os.fsync(file.fileno())
            file.close()  # Windows cannot rename an open file.
        with _signals_later():
            for _, hidden, path in opened:
                with naming(path):
                    hidden.replace(path)


def _unlink(path: Path) -> None:
    """Remove a file that may not exist; an error here would hide the one that the user needs."""
    with contextlib.suppress(OSError):
        path.unlink()


@contextlib.contextmanager
def whole_folder(folder: Path, *, replaces: bool = False) -> Iterator[Path]:
    """Yield a hidden folder, which gets its name when the block ends without an error.

    Args:
        folder: The path to write; its parents are created.
        replaces: Whether a folder with content is replaced; an empty one always is.

    Raises:
        OSError: The folder cannot be written, or has content.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    hidden, old = temporary_path(folder), temporary_path(folder)
    hidden.mkdir()
    try:
        with _marked_as_used(hidden):
            yield hidden
            for path in filter(Path.is_file, hidden.rglob("*")):
                with path.open("r+b") as file, naming(folder / path.relative_to(hidden)):
                    os.fsync(file.fileno())
            with _signals_later(), naming(folder):
                if replaces and folder.exists():
                    folder.replace(old)
                try:
                    hidden.replace(folder)
                except OSError:
                    if old.exists():
                        old.replace(folder)
                    raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def temporary_path(path: Path) -> Path:
    """Return a hidden path in the same directory that no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}")


def is_temporary(path: Path, *, of: str | None = None) -> bool:
    """Return whether `temporary_path` made a name, of any path or of one with the name `of`."""
    found = _TEMPORARY.fullmatch(path.name)
    return found is not None and (of is None or found[1] == of)


def _remove_abandoned(path: Path) -> None:
    """Delete what killed processes left when they wrote a file or folder of this name."""
    for hidden in path.parent.glob(".*"):
        if is_temporary(hidden, of=path.name):
            # Another process may be faster, and Windows does not delete open files.
            with contextlib.suppress(OSError), _marked_as_used(hidden) as is_free:
                if is_free and hidden.is_dir():
                    shutil.rmtree(hidden)
                elif is_free:
                    hidden.unlink()


@contextlib.contextmanager
def _marked_as_used(hidden: Path) -> Iterator[bool]:
    """Lock a hidden file or folder; yield False if a process uses it, or if that is unknown."""
    if fcntl is None:
        yield True
        return
    descriptor = os.open(hidden, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has locked it, or the file system has no locks
        is_free = False
    else:
        is_free = True
    try:
        yield is_free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Let signals that would end the process wait until the block has ended."""
    received: list[int] = []
    previous = {}
    if threading.current_thread() is threading.main_thread():  # signals reach no other thread
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if number := getattr(signal, name, None):  # Windows lacks SIGHUP
                previous[number] = signal.signal(number, lambda each, _: received.append(each))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def load_archive(path: Path) -> object:
    """Read the tensors and plain types of a file onto the CPU; no code in it is run.

    Raises:
        OSError: The file cannot be read.
        MemoryError: The file is larger than the memory.
        ReadingError: A checksum is wrong, or torch.save did not write the file.
    """
    import torch  # loads slowly, and scoring does not need it

    if path.exists() and not path.is_file():  # reading a named pipe could wait forever
        raise ReadingError(path, ValueError("not a regular file"))
    with path.open("rb") as file, reading(path):
        with zipfile.ZipFile(file) as archive:
            # torch.save does not compress. It writes checksums, which torch.load ignores.
            is_stored = all(each.compress_type == zipfile.ZIP_STORED for each in archive.infolist())
            if not is_stored or archive.testzip() is not None:
                raise ValueError("wrong checksum")
        content: object = torch.load(path, map_location="cpu", weights_only=True)
    return content
