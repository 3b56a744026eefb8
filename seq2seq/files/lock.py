"""Lock a directory: one process uses it at a time, and the end of a process frees it."""

import contextlib
import errno
import logging
import os
import socket
from pathlib import Path

from filelock import FileLock, Timeout

from seq2seq.files.atomic import naming

logger = logging.getLogger(__name__)

LOCK_NAME = ".seq2seq.lock"
"""Name of the lock file; a killed process leaves its file behind, which locks nothing."""
_HAS_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error numbers of a file system without locks."""


class DirectoryInUseError(ValueError):
    """Another process uses a directory."""


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
        folders = (directory.absolute(), *directory.absolute().parents)
        self._missing = [folder for folder in folders if not folder.exists()]
        self._lock = FileLock(self._path, timeout=0, thread_local=False, on_acquired=self._sign)

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
        try:
            self._lock.acquire()
        except Timeout as error:
            raise DirectoryInUseError(
                f"{self._directory} is in use by {self._owner()}; {self._advice}"
            ) from error
        except OSError as error:
            if error.errno not in _HAS_NO_LOCKS:
                raise
            logger.warning(
                "%s cannot be locked (%s); do not start a second run in this directory",
                self._directory,
                error.strerror,
            )

    def release(self) -> None:
        """Delete the lock file, and the directories that were created for it if they are empty."""
        with contextlib.suppress(OSError):  # already deleted, or Windows lets filelock do it later
            self._path.unlink()
        self._lock.release()
        for folder in self._missing:
            with contextlib.suppress(OSError):  # it has files
                folder.rmdir()

    def _sign(self, file: int) -> None:
        """Write into the locked file who holds the lock."""
        with naming(self._path):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _owner(self) -> str:
        """Return what the holder of the lock wrote about itself, if that can be read already."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self._path.read_text(encoding="utf-8").strip() or "another process"
        return "another process"
