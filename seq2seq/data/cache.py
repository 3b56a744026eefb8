"""Content-addressed cache with atomically created folders."""

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
"""Seconds; a process that fills a folder writes to it much more often."""


def digest(value: object) -> str:
    """Return a short hash of nested lists, dictionaries, tensors and plain values."""
    hashed = hashlib.sha256()
    for part in _canonical(value):
        hashed.update(part)
    return hashed.hexdigest()[:16]


def check_cache(cache_dir: str) -> None:
    """Raise ValueError if the cache directory cannot be created because of a file."""
    existing = nearest_existing(Path(cache_dir))
    if not existing.is_dir():
        raise ValueError(
            f"data.cache_dir={cache_dir}: {existing} is not a directory; choose another, which is "
            "created if it is missing"
        )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` at the end; an error removes it.

    If several processes create the same folder, the first one to finish wins.
    """
    _remove_abandoned(folder.parent)
    temporary = temporary_path(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        try:
            temporary.rename(folder)
        except OSError:
            # Another process was faster and has written the same.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(cache: Path) -> None:
    """Delete the hidden folders of killed processes."""
    for folder in filter(is_temporary, cache.glob(".*.*-*")):
        with contextlib.suppress(FileNotFoundError):  # its process has just renamed it
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
