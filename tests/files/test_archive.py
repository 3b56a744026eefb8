"""A file of torch.save is read whole or refused, whatever was done to it."""

import os
import pickle
import random
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from seq2seq.files.archive import DamagedFileError, load_archive

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")

CONTENT = {"name": "mine", "weights": torch.arange(40.0), "nested": [{"x": torch.ones(2, 3)}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.save(CONTENT, tmp_path / "x.pt")
    return tmp_path / "x.pt"


def equals(content: object) -> bool:
    assert isinstance(content, dict)
    return (
        content["name"] == "mine"
        and torch.equal(content["weights"], CONTENT["weights"])
        and torch.equal(content["nested"][0]["x"], torch.ones(2, 3))
    )


def test_a_file_is_read(path):
    assert equals(load_archive(path))


def test_any_damaged_header_is_refused_or_harmless(path):
    """Headers name methods of compression, encryption, sizes and positions."""
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
            except DamagedFileError as error:
                num_refused += 1
                assert str(error) == f"{path} is damaged or was not written by this program"

    assert num_refused > 60


@pytest.mark.parametrize(
    "content", [b"", b"ein hund\n", b"PK\x03\x04", b"\x80\x02.", pickle.dumps([1]), b"\x00" * 99]
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "x.pt").write_bytes(content)

    with pytest.raises(DamagedFileError):
        load_archive(tmp_path / "x.pt")


def test_a_compressed_archive_is_refused_unread(path, tmp_path):
    """It could become gigabytes; torch.save does not compress."""
    with (
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))

    with pytest.raises(DamagedFileError):
        load_archive(tmp_path / "y.pt")


@posix
def test_a_pipe_is_refused_instead_of_awaited(tmp_path):
    os.mkfifo(tmp_path / "x.pt")

    with pytest.raises(DamagedFileError):
        load_archive(tmp_path / "x.pt")


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
