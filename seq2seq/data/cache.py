"""Content-addressed cache with atomically created folders, which are checked before use."""

import contextlib
import hashlib
import json
import logging
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from seq2seq.files.atomic import create_file, is_abandoned, is_temporary, temporary_path
from seq2seq.files.paths import expand_home, nearest_existing

logger = logging.getLogger(__name__)

_CHECKSUMS = "checksums.json"
_BLOCK = 1 << 20
_ABANDONED_AFTER = 3600.0
"""Seconds; a process of another machine that fills a folder writes to it much more often."""


def digest(value: object) -> str:
    """Return a short hash of nested lists, dictionaries, tensors and plain values."""
    text = json.dumps(value, sort_keys=True, default=_hex)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _hex(value: object) -> str:
    """Return the bytes of a tensor for JSON."""
    assert isinstance(value, Tensor)
    return np.asarray(value).tobytes().hex()


def cache_path(cache_dir: str) -> Path:
    """Return the path of the cache directory, which may begin with `~`."""
    return expand_home(cache_dir, key="data.cache_dir")


def check_cache(cache_dir: str) -> None:
    """Raise ValueError if the cache directory cannot be created because of a file."""
    existing = nearest_existing(cache_path(cache_dir))
    if not existing.is_dir():
        raise ValueError(
            f"data.cache_dir={cache_dir}: {existing} is not a directory; choose another, which is "
            "created if it is missing"
        )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` at the end; an error removes it.

    The checksums of its files are written beside them for `is_cached`.

    If several processes create the same folder, the first to finish wins.
    """
    with scratch_folder(folder) as temporary:
        yield temporary
        checksums = json.dumps(_checksums(temporary))
        with create_file(temporary / _CHECKSUMS) as file:
            file.write(checksums.encode("ascii"))
        try:
            temporary.rename(folder)
        except OSError:
            # Another process was faster and wrote the same.
            if not folder.is_dir():
                raise


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Yield a new hidden folder beside `folder`, which is deleted at the end."""
    remove_abandoned(folder.parent)
    temporary = temporary_path(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_cached(folder: Path) -> bool:
    """Return whether `new_folder` has created the folder; a damaged one is deleted."""
    if not folder.is_dir():
        return False
    try:
        written = json.loads((folder / _CHECKSUMS).read_text(encoding="ascii"))
        if written == _checksums(folder):
            return True
    except (OSError, ValueError):  # missing, or no JSON
        pass
    warn_of_damage(folder)
    # Under its own name, the folder is complete or absent.
    doomed = temporary_path(folder)
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    return False


def warn_of_damage(path: Path) -> None:
    """Log that a file or folder of the cache is created again."""
    logger.warning("%s: damaged cache; it is created again", path)


def _checksums(folder: Path) -> dict[str, int]:
    """Return the CRC-32 of each file in a folder."""
    return {
        path.name: _checksum(path) for path in sorted(folder.iterdir()) if path.name != _CHECKSUMS
    }


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


def remove_abandoned(cache: Path) -> None:
    """Delete hidden files and folders that killed processes left.

    Files of other machines are deleted an hour after their last write.
    """
    for path in filter(is_temporary, cache.glob(".*.*-*")):
        with contextlib.suppress(FileNotFoundError):  # its process has just renamed it
            last_written = max(each.stat().st_mtime for each in (path, *path.glob("*")))
            if is_abandoned(path) or last_written < time.time() - _ABANDONED_AFTER:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
