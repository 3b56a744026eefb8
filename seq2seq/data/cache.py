"""What a cache is made of: names that say what is inside, and files that are there whole or not."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

_ABANDONED_AFTER = 3600.0
"""seconds; a process that fills a folder writes to it again and again in that time"""


def digest(value: object) -> str:
    """Return a short hash of nested lists, dictionaries, tensors and plain values."""
    hashed = hashlib.sha256()
    for part in _canonical(value):
        hashed.update(part)
    return hashed.hexdigest()[:16]


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a hidden name to write to, which then becomes `path`; an error leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder to fill, which then becomes `folder`; an error leaves nothing.

    Of several processes that fill the same folder the first one's is kept.
    """
    _remove_abandoned(folder.parent)
    temporary = _temporary_name(folder)
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
    for folder in filter(_is_temporary, cache.glob(".*.*-*")):
        with contextlib.suppress(FileNotFoundError):  # its process has just finished with it
            last_written = max(path.stat().st_mtime for path in (folder, *folder.glob("*")))
            if folder.is_dir() and last_written < time.time() - _ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")


def _is_temporary(path: Path) -> bool:
    """Say whether a name is one of `_temporary_name`: nothing else may be deleted."""
    return re.fullmatch(r"\..+\.[0-9]+-[0-9a-f]{8}", path.name) is not None


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
