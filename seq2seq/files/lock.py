"""Lock a directory: one process uses it at a time, and the end of a process frees it."""

import contextlib
import errno
import logging
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import TextIO

from seq2seq.files.atomic import naming
from seq2seq.files.paths import nearest_existing, remove_empty

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

LOCK_NAME = ".lock"
"""Name of the lock file; a killed process leaves one behind, which locks nothing."""


class DirectoryInUseError(ValueError):
    """Another process holds the lock of a directory."""


class DirectoryLock:
    """A lock on a directory, held until it is released or the process ends."""

    def __init__(self, directory: Path, *, advice: str) -> None:
        """Describe the lock; `acquire` takes it.

        Args:
            directory: Directory to lock; it is created if it does not exist.
            advice: The way out for a process that finds the directory locked.
        """
        self._directory = directory
        self._path = directory / LOCK_NAME
        self._advice = advice
        self._existing = nearest_existing(directory).absolute()
        self._release: weakref.finalize[..., DirectoryLock] | None = None

    def __enter__(self) -> "DirectoryLock":
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise at once.

        On a file system without locks, a warning is logged instead.

        Raises:
            DirectoryInUseError: Another process holds the lock.
            OSError: The directory or the lock file cannot be created.
        """
        while self._release is None:
            file = self._open()
            try:
                lock_file(file)
                if not self._is_current(file):
                    file.close()  # The previous holder has deleted it meanwhile.
                    continue
            except BlockingIOError as error:
                owner = _owner(file)
                file.close()
                raise DirectoryInUseError(
                    f"{self._directory} is in use by {owner}; {self._advice}"
                ) from error
            except OSError as error:
                logger.warning(
                    "%s cannot be locked (%s); start no second run in it",
                    self._directory,
                    error.strerror,
                )
            # Also called at the end of the process, if it does not die of a signal.
            self._release = weakref.finalize(self, _release, file, self._path, keep=self._existing)
            file.truncate(0)
            with naming(self._path):
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                file.flush()

    def release(self) -> None:
        """Delete the lock file, and the directories that were created for it if they are empty."""
        if self._release is not None:
            self._release()
            self._release = None

    def _open(self) -> TextIO:
        while True:
            self._directory.mkdir(parents=True, exist_ok=True)
            # Another process may remove the directory here, when it releases its lock.
            with contextlib.suppress(FileNotFoundError):
                return self._path.open("a+", encoding="utf-8")

    def _is_current(self, file: TextIO) -> bool:
        """Return whether the open file is still the one at the path."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False


def lock_file(file: TextIO) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: Another process has locked it.
        OSError: The file system or the operating system has no locks.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _release(file: TextIO, path: Path, *, keep: Path) -> None:
    path.unlink(missing_ok=True)
    file.close()
    remove_empty(path.parent, keep=keep)


def _owner(file: TextIO) -> str:
    """Return the description that the holder of the lock wrote into the file."""
    file.seek(0)
    return file.read().strip() or "another process"
