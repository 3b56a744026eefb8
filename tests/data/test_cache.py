"""Folders of a cache are complete or absent."""

import os
import time
from pathlib import Path

import pytest
import torch

from seq2seq.data.cache import check_cache, digest, is_cached, new_folder, remove_abandoned


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def abandon(folder: Path, *, seconds: float) -> Path:
    """Create the folder of a process that was killed this long ago."""
    folder.mkdir(parents=True)
    (folder / "source.ids").write_bytes(b"half")
    then = time.time() - seconds
    for path in (folder / "source.ids", folder):
        os.utime(path, (then, then))
    return folder


@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_file_cannot_be_a_cache(tmp_path: Path, below: str) -> None:
    (tmp_path / "notes").write_text("kept")
    cache_dir = str(tmp_path / "notes" / below)

    with pytest.raises(ValueError, match=f"^data.cache_dir={cache_dir}: .*notes is not a dir"):
        check_cache(cache_dir)

    assert (tmp_path / "notes").read_text() == "kept"


@pytest.mark.parametrize("cache_dir", ["", "there", "there/not/yet"])
def test_an_existing_or_missing_folder_can_be_a_cache(tmp_path: Path, cache_dir: str) -> None:
    (tmp_path / "there").mkdir()

    check_cache(str(tmp_path / cache_dir))

    assert names(tmp_path) == ["there"]


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with new_folder(tmp_path / "cache" / "train-1") as folder:
        (folder / "ids").write_bytes(b"all")
        assert not (tmp_path / "cache" / "train-1").exists()

    assert names(tmp_path / "cache") == ["train-1"]
    assert (tmp_path / "cache" / "train-1" / "ids").read_bytes() == b"all"


def test_an_interrupt_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "train-1") as folder:
        (folder / "ids").write_bytes(b"half")
        raise KeyboardInterrupt

    assert names(tmp_path) == []


def test_the_folder_of_a_process_killed_long_ago_is_removed(tmp_path: Path) -> None:
    abandon(tmp_path / ".train-0.99-abcdef01", seconds=4000)

    with new_folder(tmp_path / "train-1"):
        pass

    assert names(tmp_path) == ["train-1"]


@pytest.mark.parametrize("written", ["folder", "file"])
def test_the_folder_of_a_running_process_stays(tmp_path: Path, written: str) -> None:
    other = abandon(tmp_path / ".train-0.99-abcdef01", seconds=4000)
    os.utime(other if written == "folder" else other / "source.ids")

    with new_folder(tmp_path / "train-1"):
        pass

    assert names(tmp_path) == [other.name, "train-1"]


def test_only_old_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    old, new = ".tokenizers-0.pt.99-abcdef01", ".tokenizers-1.pt.99-abcdef01"
    for name in (old, new, ".notes.md"):
        (tmp_path / name).write_bytes(b"half")
        if name != new:
            os.utime(tmp_path / name, (0, 0))

    remove_abandoned(tmp_path)

    assert names(tmp_path) == [".notes.md", new]


def fill(folder: Path) -> None:
    with new_folder(folder) as temporary:
        (temporary / "ids").write_bytes(bytes(range(100)))
        (temporary / "counts").write_text("100")


def test_a_folder_is_cached_when_it_was_created(tmp_path: Path) -> None:
    assert not is_cached(tmp_path / "train-1")

    fill(tmp_path / "train-1")

    assert is_cached(tmp_path / "train-1")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ids", bytes([1, *range(1, 100)])),
        ("ids", b""),
        ("ids", None),
        ("counts", b"101"),
        ("more", b""),
        ("checksums.json", b"{"),
        ("checksums.json", b"{}"),
        ("checksums.json", b"\xff"),
        ("checksums.json", None),
    ],
)
def test_a_damaged_folder_is_deleted_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: bytes | None
) -> None:
    folder = tmp_path / "train-1"
    fill(folder)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)

    assert not is_cached(folder)

    assert names(tmp_path) == []
    assert f"{folder}: damaged cache; it is created again" in caplog.text


def test_hidden_folders_of_others_stay(tmp_path: Path) -> None:
    others = [".config.d", ".git", ".mail.2019-abc", ".notes.old-2023"]
    for name in others:
        abandon(tmp_path / name, seconds=4000)

    with new_folder(tmp_path / "train-1"):
        pass

    assert names(tmp_path) == [*others, "train-1"]


def test_the_digest_is_that_of_the_content() -> None:
    value = {"b": [1, None, True], "a": {"x": torch.tensor([1, 2], dtype=torch.uint8)}}
    same = {"a": {"x": torch.tensor([1, 2], dtype=torch.uint8)}, "b": [1, None, True]}
    others = [{**value, "b": [1, None]}, {**value, "b": [[1], None, True]}, {**value, "c": 1}]

    digests = [digest(each) for each in (value, same, *others)]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 4
