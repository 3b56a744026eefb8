"""The outputs of translate.py are whole, whatever they are written to."""

import contextlib
import errno
import gzip
import os
import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from seq2seq.cli.outputs import open_output, write
from seq2seq.files.atomic import whole_files

needs_full_device = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="only Linux has a full device"
)


@contextlib.contextmanager
def opened(path, key="output"):
    with whole_files() as new_file, open_output(path, key=key, new_file=new_file) as file:
        yield file


def test_the_target_of_a_link_is_replaced_and_the_link_kept(tmp_path):
    (tmp_path / "out.txt").write_bytes(b"before")
    (tmp_path / "link").symlink_to("out.txt")

    with opened(str(tmp_path / "link")) as file:
        file.write(b"all")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out.txt").read_bytes() == b"all"


def test_a_compressed_file_is_reproducible_and_appears_when_complete(tmp_path):
    paths = [tmp_path / "a.txt.gz", tmp_path / "b.txt.gz"]
    for path in paths:
        with opened(str(path)) as file:
            file.write(b"a\n")
            assert not path.exists()

    first, second = (path.read_bytes() for path in paths)
    assert gzip.decompress(first) == b"a\n"
    assert first == second


def test_a_device_is_written_to_and_not_replaced():
    with opened(os.devnull) as file:
        file.write(b"a\n")

    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


@needs_full_device
def test_a_full_device_is_named():
    with pytest.raises(OSError, match="/dev/full") as error, opened("/dev/full") as file:
        write(file, b"a\n")

    assert error.value.filename == "/dev/full"


@needs_full_device
def test_full_standard_output_is_named(monkeypatch):
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=full))
        with pytest.raises(OSError, match="standard output") as error, opened(None) as file:
            write(file, b"a\n")
        monkeypatch.undo()

    assert (error.value.filename, error.value.errno) == ("standard output", errno.ENOSPC)


def test_a_pipe_without_a_path_is_written_to():
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", 0) as reader, os.fdopen(write_end, "wb", 0):
        with opened(f"/dev/fd/{write_end}") as file:
            file.write(b"a\n")

        assert reader.read(9) == b"a\n"


def test_a_closed_pipe_is_not_an_error(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    with opened(str(pipe)) as file:
        before = write(file, b"a\n")
        os.close(reader)
        after = write(file, b"b\n")

    assert (before, after) == (True, False)


def test_closed_standard_output_is_an_error_with_the_way_out(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)

    with pytest.raises(OSError, match="standard output is closed; give output=FILE"):
        opened(None).__enter__()


@pytest.mark.parametrize("path", ["missing/out.txt", "file/out.txt", "."])
def test_a_path_that_cannot_be_written_is_named(tmp_path, path):
    (tmp_path / "file").touch()

    with (
        pytest.raises(OSError, match=re.escape(f"'{tmp_path / path}'")),
        opened(str(tmp_path / path), key="alignments"),
    ):
        pass
