"""What a cache is made of: names that say what is inside, and folders that are full or absent."""

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from seq2seq.files.atomic import is_temporary, temporary_path
from seq2seq.files.paths import nearest_existing

_ABANDONED_AFTER = 3600.0
"""seconds; a process that fills a folder writes to it again and again in that time"""


def digest(value: object) -> str:
    """Return a short hash of nested lists, dictionaries, tensors and plain values."""
    hashed = hashlib.sha256()
    for part in _canonical(value):
        hashed.update(part)
    return hashed.hexdigest()[:16]


def check_cache(cache_dir: str) -> None:
    """Refuse what cannot be a cache before there is anything to put into it.

    Raises:
        ValueError: a file stands in its place.
    """
    there = nearest_existing(Path(cache_dir))
    if not there.is_dir():
        raise ValueError(
            f"data.cache_dir={cache_dir}: {there} is no directory; choose another, which is made "
            "where it is missing"
        )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder to fill, which then becomes `folder`; an error leaves nothing.

    Of several processes that fill the same folder the first one's is kept.
    """
    _remove_abandoned(folder.parent)
    temporary = temporary_path(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        try:
            temporary.rename(folder)
        except OSError:
            # Another process was faster; what it wrote is the same as this.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(cache: Path) -> None:
    """Delete the hidden folders of processes that were killed while they filled them."""
    for folder in filter(is_temporary, cache.glob(".*.*-*")):
        with contextlib.suppress(FileNotFoundError):  # its process has just finished with it
            last_written = max(path.stat().st_mtime for path in (folder, *folder.glob("*")))
            if folder.is_dir() and last_written < time.time() - _ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


def _canonical(value: object) -> Iterator[bytes]:
    if isinstance(value, dict):
        value = [[key, value[key]] for key in sorted(value)]
    if isinstance(value, Tensor):
        yield np.asarray(value).tobytes()
    elif isinstance(value, list):
        yield b"["
        for item in value:
            yield from _canonical(item)
        yield b"]"
    else:
        yield json.dumps(value).encode("ascii") + b","
