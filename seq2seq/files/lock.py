"""Lock a directory: one process uses it at a time, and the end of a process frees it."""

import contextlib
import logging
import os
import re
import socket
import sys
from pathlib import Path

from seq2seq.files.atomic import naming
from seq2seq.files.paths import nearest_existing, remove_empty

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

logger = logging.getLogger(__name__)

LOCK_NAME = ".lock"
"""Name of the lock file; a killed process leaves one behind, which locks nothing."""
_OWNER = re.compile(r"(process [0-9]+ on .*\n?)?")
"""Content of a lock file; a process that was killed at once has written nothing yet."""
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Windows has no O_NOFOLLOW, and only Windows has O_BINARY."""
_LOCKED_BYTE = 1 << 30
"""Windows locks bytes, which nobody else can read; this one is behind the content."""


class DirectoryInUseError(ValueError):
    """Another process uses a directory, or may use what is now at its path."""


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
        self._file = -1

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
            ValueError: The lock file belongs to another program; it is left unchanged.
            OSError: The directory or the lock file cannot be created.
        """
        while self._file < 0:
            file = self._open()
            try:
                owner = self._read_owner(file)
                lock_file(file)
                if not _is_at(self._path, file):
                    os.close(file)  # The previous holder has deleted it meanwhile.
                    continue
            except BlockingIOError as error:
                os.close(file)
                raise DirectoryInUseError(
                    f"{self._directory} is in use by {owner}; {self._advice}"
                ) from error
            except OSError as error:
                logger.warning(
                    "%s cannot be locked (%s); start no second run in it",
                    self._directory,
                    error.strerror,
                )
            except ValueError:
                os.close(file)
                raise
            self._file = file
            with naming(self._path):
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def check(self) -> None:
        """Check that the path still leads to the directory that was locked.

        Raises:
            DirectoryInUseError: The directory was moved, replaced or deleted.
        """
        if self._file >= 0 and not _is_at(self._path, self._file):
            raise DirectoryInUseError(
                f"{self._directory} was moved, replaced or deleted while this process used it; "
                "nothing more is written there: use resume=true where the directory is now"
            )

    def release(self) -> None:
        """Delete the lock file, and the directories that were created for it if they are empty."""
        if self._file < 0:
            return
        is_own = _is_at(self._path, self._file)
        if sys.platform == "win32":  # it does not delete open files, also not the next holder's
            os.close(self._file)
        if is_own:
            with contextlib.suppress(OSError):  # a file that stays locks nothing
                self._path.unlink()
            remove_empty(self._directory, keep=self._existing)
        if sys.platform != "win32":
            os.close(self._file)
        self._file = -1

    def _open(self) -> int:
        while True:
            self._directory.mkdir(parents=True, exist_ok=True)
            if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
                raise self._foreign()
            # Another process may remove the directory here, when it releases its lock.
            with contextlib.suppress(FileNotFoundError):
                return os.open(self._path, _FLAGS, 0o666)

    def _read_owner(self, file: int) -> str:
        """Return the description that the holder of the lock wrote into the file."""
        content = os.read(file, 1000).decode("utf-8", errors="replace")
        if not _OWNER.fullmatch(content):
            raise self._foreign()
        return content.strip() or "another process"

    def _foreign(self) -> ValueError:
        return ValueError(
            f"{self._path} was not written by this program; move it away or choose another "
            "directory"
        )


def lock_file(file: int) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: Another process has locked it.
        OSError: The file system has no locks.
    """
    if sys.platform == "win32":
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from error
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(path: Path, file: int) -> bool:
    """Return whether an open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False
