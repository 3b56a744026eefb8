"""A file is complete or absent, even if writing it is interrupted."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.files.atomic import (
    create_file,
    is_abandoned,
    is_temporary,
    temporary_path,
    whole_file,
    whole_files,
)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    with whole_file(tmp_path / "a.txt") as file:
        file.write(b"all")
        assert not (tmp_path / "a.txt").exists()

    assert contents(tmp_path) == {"a.txt": b"all"}


@pytest.mark.parametrize("end", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [{}, {"a.txt": b"before"}])
def test_an_error_leaves_what_was_there_before(tmp_path, end, before):
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)

    with pytest.raises(end), whole_file(tmp_path / "a.txt") as file:
        file.write(b"half")
        raise end

    assert contents(tmp_path) == before


def test_an_interrupt_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "a.txt") as file:
        file.write(b"half")
        signal.raise_signal(signal.SIGINT)

    assert contents(tmp_path) == {}


def test_a_disk_that_is_full_at_the_end_leaves_nothing(tmp_path, monkeypatch):
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"), whole_file(tmp_path / "a.txt") as file:
        file.write(b"all")

    assert contents(tmp_path) == {}


def test_a_killed_process_leaves_a_recognisable_hidden_file(tmp_path):
    lines = (
        "import os, pathlib, seq2seq.files.atomic as files",
        "with files.whole_file(pathlib.Path('a.txt')) as file: file.write(b'half'); os._exit(9)",
    )

    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, check=False)

    assert done.returncode == 9
    [left] = tmp_path.iterdir()
    assert left.name != "a.txt"
    assert is_temporary(left)
    assert is_abandoned(left)


def test_several_files_get_their_names_together(tmp_path):
    with whole_files() as new_file:
        for name in "ab":
            new_file(tmp_path / name).write(name.encode())

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
    with pytest.raises(OSError, match="no space left"), whole_files() as new_file:
        for name in "ab":
            new_file(tmp_path / name).write(b"all")

    assert contents(tmp_path) == {"a": b"before"}


def test_a_missing_directory_is_an_error_and_is_not_created(tmp_path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "missing" / "a.txt"):
        pass

    assert contents(tmp_path) == {}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, mask):
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "a.txt"):
            pass
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask


def test_a_link_is_replaced_and_its_target_stays(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"before")
    (tmp_path / "link").symlink_to("a.txt")

    with whole_file(tmp_path / "link") as file:
        file.write(b"all")

    assert contents(tmp_path) == {"a.txt": b"before", "link": b"all"}
    assert not (tmp_path / "link").is_symlink()


def test_only_temporary_paths_are_recognised(tmp_path):
    assert is_temporary(temporary_path(tmp_path / "best.pt"))
    assert not is_abandoned(temporary_path(tmp_path / "best.pt"))
    assert is_temporary(tmp_path / ".best.pt.99-0123abcd")
    assert not is_abandoned(tmp_path / ".best.pt.99-0123abcd")  # it may be another machine's
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


def test_an_error_after_writing_names_the_final_file(tmp_path, monkeypatch):
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left") as raised, whole_files() as new_file:
        new_file(tmp_path / "a.txt").write(b"all")

    assert raised.value.filename == str(tmp_path / "a.txt")


def test_a_file_can_be_continued(tmp_path):
    for content in (b"one\n", b"two\n"):
        with create_file(tmp_path / "a.txt", append=True) as file:
            file.write(content)

    assert contents(tmp_path) == {"a.txt": b"one\ntwo\n"}
