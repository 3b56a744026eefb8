"""A directory is used by one process at a time, and death frees it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.files.lock import LOCK_NAME, DirectoryLock

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL or fcntl")

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
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_NAME]

    with locked(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []


def test_released_locks_leave_no_files_and_no_new_empty_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()

    with locked(Path("there/new/mine")):
        assert (tmp_path / "there" / "new" / "mine" / LOCK_NAME).exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with locked(tmp_path / "there" / "new" / "mine"):
        (tmp_path / "there" / "new" / "best.pt").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["best.pt", "new", "there"]


@posix
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def flock(file, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)

    with locked(tmp_path / "mine"):
        pass

    assert "mine cannot be locked (No locks available)" in caplog.text


@posix
def test_a_directory_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / LOCK_NAME).mkdir()

    with pytest.raises(OSError, match=f"Is a directory: .*{LOCK_NAME}"):
        locked(tmp_path).acquire()
