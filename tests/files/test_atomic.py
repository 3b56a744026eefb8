"""A file is complete or absent, even if writing it is interrupted."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from seq2seq.files.atomic import (
    create_file,
    is_temporary,
    load_archive,
    temporary_path,
    whole_file,
    whole_files,
    whole_folder,
)
from seq2seq.files.paths import ReadingError


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("end", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [{}, {"a.txt": b"before"}])
def test_an_error_leaves_what_was_there_before(tmp_path, end, before):
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)

    with pytest.raises(end), whole_file(tmp_path / "a.txt") as file:
        file.write(b"half")
        raise end

    assert contents(tmp_path) == before


def test_several_files_get_their_names_together_when_all_are_complete(tmp_path):
    with whole_files() as new_file:
        for name in "ab":
            new_file(tmp_path / name).write(name.encode())
        left_by_a_kill = list(tmp_path.iterdir())
        assert len(left_by_a_kill) == 2
        assert all(map(is_temporary, left_by_a_kill))

    assert contents(tmp_path) == {"a": b"a", "b": b"b"}


@pytest.mark.parametrize("failing", [1, 2])
def test_none_of_several_files_gets_its_name_when_one_fails(tmp_path, monkeypatch, failing):
    (tmp_path / "a").write_bytes(b"before")
    fsync, calls = os.fsync, []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "no space left")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left") as raised, whole_files() as new_file:
        for name in "ab":
            new_file(tmp_path / name).write(b"all")

    assert raised.value.filename == str(tmp_path / "ab"[failing - 1])
    assert contents(tmp_path) == {"a": b"before"}


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def ends_at_signals():
    """Let each signal raise an error, as a command does."""

    def end(number, frame):
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_between_the_renames_waits_for_the_last_one(
    tmp_path, monkeypatch, ends_at_signals, number
):
    rename = Path.replace

    def replace(path, target):
        os.kill(os.getpid(), number)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(SystemExit), whole_files() as new_file:
        for name in "ab":
            new_file(tmp_path / name).write(b"all")

    assert contents(tmp_path) == {"a": b"all", "b": b"all"}


KILLED = """
import sys, time
from pathlib import Path
from seq2seq.files.atomic import whole_files, whole_folder
from seq2seq.runtime.process import interrupts_in_one_line
folder = Path(sys.argv[1])
with interrupts_in_one_line(), whole_folder(folder / "out") as hidden, whole_files() as new_file:
    (hidden / "part").write_bytes(b"half")
    new_file(folder / "file").write(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGKILL])
def test_what_a_killed_process_leaves_is_deleted_by_the_next_one(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        with whole_files() as new_file:  # while the other process is at work
            new_file(tmp_path / "file").write(b"first")
        during = len(list(tmp_path.glob(".*")))
        process.send_signal(number)

    left = list(tmp_path.glob(".*"))
    assert (during, len(left)) == (2, 2 if number == signal.SIGKILL else 0)
    with whole_files() as new_file, whole_folder(tmp_path / "out") as folder:
        (folder / "part").write_bytes(b"all")
        new_file(tmp_path / "file").write(b"all")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]
    assert contents(tmp_path / "out") == {"part": b"all"}


@pytest.mark.parametrize("replaces", [False, True])
def test_a_folder_with_content_is_replaced_only_if_asked(tmp_path, replaces):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"before")
    try:
        with whole_folder(tmp_path / "out", replaces=replaces) as folder:
            (folder / "new").write_bytes(b"all")
    except OSError as error:
        assert (error.filename, replaces) == (str(tmp_path / "out"), False)

    expected = {"new": b"all"} if replaces else {"mine": b"before"}
    assert contents(tmp_path / "out") == expected
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_link_is_replaced_by_a_file_with_the_permissions_of_the_umask(tmp_path, mask):
    (tmp_path / "a.txt").write_bytes(b"before")
    (tmp_path / "link").symlink_to("a.txt")
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "link") as file:
            file.write(b"all")
    finally:
        os.umask(before)

    assert contents(tmp_path) == {"a.txt": b"before", "link": b"all"}
    assert (tmp_path / "link").lstat().st_mode == stat.S_IFREG | (0o666 & ~mask)


def test_only_temporary_paths_are_recognised(tmp_path):
    assert is_temporary(temporary_path(tmp_path / "best.pt"))
    assert is_temporary(tmp_path / ".best.pt.99-0123abcd")
    assert temporary_path(tmp_path / "a") != temporary_path(tmp_path / "a")
    for name in ("a", ".config.d", ".mail.2019-abc", ".notes.old-2023", "a.1-0123abcd"):
        assert not is_temporary(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_an_error_while_writing_names_the_file():
    file = create_file(Path("/dev/full"), shown=Path("a.txt"))
    file.write(b"all")

    with pytest.raises(OSError, match=r"a\.txt") as raised:
        file.close()

    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "a.txt")


CONTENT = {"name": "mine", "weights": torch.arange(40.0), "nested": [{"x": torch.ones(2, 3)}]}


@pytest.fixture
def path(tmp_path):
    torch.save(CONTENT, tmp_path / "x.pt")
    return tmp_path / "x.pt"


def equals(content: object) -> bool:
    assert isinstance(content, dict)
    return (
        content["name"] == "mine"
        and torch.equal(content["weights"], CONTENT["weights"])
        and torch.equal(content["nested"][0]["x"], torch.ones(2, 3))
    )


def test_a_file_is_read_and_any_damaged_header_refused_or_harmless(path):
    """Headers name methods of compression, encryption, sizes and positions."""
    assert equals(load_archive(path))
    content, draw, num_refused = path.read_bytes(), random.Random(3), 0
    starts = [i for i in range(len(content)) if content[i : i + 2] == b"PK"]
    positions = {at for start in starts for at in range(start, start + 46)}
    for position in draw.sample(sorted(positions), 250):
        if position < len(content):
            damaged = bytearray(content)
            damaged[position] ^= draw.choice([0x01, 0x08, 0x80, 0xFF])
            path.write_bytes(damaged)
            try:
                assert equals(load_archive(path))
            except ReadingError as error:
                num_refused += 1
                assert str(error).startswith(f"{path}: ")

    assert num_refused > 60


def test_a_compressed_archive_is_refused_unread(path, tmp_path):
    """It could become gigabytes; torch.save does not compress."""
    with (
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))

    with pytest.raises(ReadingError):
        load_archive(tmp_path / "y.pt")


def test_a_missing_file_is_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_archive(tmp_path / "x.pt")

    assert error.value.filename == str(tmp_path / "x.pt")


def test_a_file_larger_than_the_memory_is_not_called_damaged(path, monkeypatch):
    def fail(*arguments, **keywords):
        raise MemoryError

    monkeypatch.setattr(torch, "load", fail)

    with pytest.raises(MemoryError):
        load_archive(path)
