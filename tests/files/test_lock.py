"""A directory is used by one process at a time, and death frees it."""

import importlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.files import lock
from seq2seq.files.lock import DirectoryLock

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL, fcntl or fifo")

HOLDER = """
import sys
from pathlib import Path
from seq2seq.files.lock import DirectoryLock
with DirectoryLock(Path(sys.argv[1]), advice="wait"):
    print("held", flush=True)
    sys.stdin.read()
"""


def locked(path: Path) -> DirectoryLock:
    return DirectoryLock(path, advice="choose another run_name")


def start_holder(path: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock until its standard input closes."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_process_is_refused_with_process_and_host_of_the_first(tmp_path):
    path = tmp_path / "runs" / "mine"
    holder = start_holder(path)

    with pytest.raises(ValueError, match="choose another run_name") as refusal, locked(path):
        pass

    assert str(refusal.value) == (
        f"{path} is in use by process {holder.pid} on {socket.gethostname()}; "
        "choose another run_name"
    )
    holder.communicate()
    with locked(path):
        pass


@posix
def test_the_death_of_the_first_process_frees_the_directory(tmp_path):
    holder = start_holder(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]

    with locked(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []


@posix
def test_the_lock_of_a_moved_directory_leaves_that_of_its_successor(tmp_path):
    first = locked(tmp_path / "mine")
    first.acquire()
    (tmp_path / "mine").rename(tmp_path / "moved")

    with locked(tmp_path / "mine") as second:
        first.release()

        second.check()
        with pytest.raises(ValueError, match=r"in use by"):
            locked(tmp_path / "mine").acquire()


def foreign_file(path: Path) -> None:
    path.write_text("keep")


def foreign_link(path: Path) -> None:
    (path.parent / "mine.txt").write_text("keep")
    path.symlink_to("mine.txt")


@posix
@pytest.mark.parametrize(
    "make",
    [
        foreign_file,
        foreign_link,
        Path.mkdir,
        getattr(os, "mkfifo", None),
        lambda path: path.symlink_to("no"),
    ],
)
def test_a_lock_file_of_somebody_else_is_refused_and_stays(tmp_path, make):
    make(tmp_path / ".lock")
    before = {path: path.lstat() for path in tmp_path.iterdir()}

    with pytest.raises(ValueError, match=r"\.lock was not written by this program; move it away"):
        locked(tmp_path).acquire()

    assert {path: path.lstat().st_mtime for path in tmp_path.iterdir()} == {
        path: stat.st_mtime for path, stat in before.items()
    }
    for path in tmp_path.iterdir():
        assert not path.is_file() or path.read_text() == "keep"


def test_one_process_cannot_lock_a_directory_twice(tmp_path):
    with locked(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} "):
        locked(tmp_path).acquire()


def test_released_locks_leave_no_files_and_no_new_directories(tmp_path):
    (tmp_path / "there").mkdir()

    with locked(tmp_path / "there" / "new" / "mine"):
        assert (tmp_path / "there" / "new" / "mine" / ".lock").exists()

    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_directories_with_files_stay(tmp_path):
    with locked(tmp_path / "mine"):
        (tmp_path / "mine" / "config.yaml").write_text("x")

    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["config.yaml"]


def test_a_lock_that_was_deleted_while_it_was_awaited_is_created_again(tmp_path, monkeypatch):
    """The previous holder may delete the file after another process has opened it."""
    original, calls = lock.lock_file, []

    def lock_file(file):
        calls.append(file)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()
        return original(file)

    monkeypatch.setattr(lock, "lock_file", lock_file)

    with locked(tmp_path), pytest.raises(ValueError, match="is in use by process"):
        locked(tmp_path).acquire()

    assert len(calls) == 3


@posix
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def lock_file(file):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock, "lock_file", lock_file)

    with locked(tmp_path):
        pass

    assert "cannot be locked" in caplog.text
    assert "No locks available" in caplog.text


class _LocksOfWindows:
    """Locks as `msvcrt` does, which raises PermissionError for a locked byte."""

    LK_NBLCK = 2

    def locking(self, file: int, mode: int, size: int) -> None:
        fcntl = importlib.import_module("fcntl")
        assert (mode, size) == (self.LK_NBLCK, 1)
        assert os.lseek(file, 0, os.SEEK_CUR) > 1000  # others read the bytes before it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(13, "denied") from error


@posix
def test_without_fcntl_a_byte_of_the_file_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(lock, "fcntl")
    monkeypatch.setattr(lock, "msvcrt", _LocksOfWindows(), raising=False)

    with locked(tmp_path / "run") as held:
        held.check()
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()} on "):
            locked(tmp_path / "run").acquire()
    assert not (tmp_path / "run").exists()
