"""Download files atomically and check their SHA-256."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import requests
from tqdm import tqdm

from seq2seq.data.files.corpus import file_sha256
from seq2seq.files.atomic import create_file
from seq2seq.files.paths import nearest_existing, remove_empty

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

RETRY_WAITS = (1.0, 2.0, 4.0)
"""Seconds before each further try."""
_TIMEOUTS = (10.0, 30.0)
"""Seconds to connect, and between two parts of the answer."""
_CHUNK_SIZE = 1 << 13
"""Bytes; small, since a broken connection loses the current chunk."""
_BROKEN_CONNECTION = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
)


def fetch(url: str, *, path: Path, sha256: str, retry_waits: Sequence[float] = RETRY_WAITS) -> None:
    """Download a file unless it exists.

    The download is stored in `<path>.part` and renamed when it is complete; a broken one resumes
    where it stopped. If several processes need the file, one downloads it.

    Args:
        url: Address of the file.
        path: Path of the file on disk.
        sha256: Hash of the file, in hex.
        retry_waits: Seconds before each further try.

    Raises:
        ValueError: The file on disk or the download has another hash.
        ConnectionError: The server cannot be reached or does not send the file.
    """
    if path.exists():
        _check_present(path, sha256=sha256)
        return
    part = path.with_name(f"{path.name}.part")
    with _directory(path.parent), _alone_in(path.parent):
        if path.exists():
            return  # another process has just downloaded and checked it
        if not part.exists() or file_sha256(part) != sha256:
            _download(url, path=path, part=part, retry_waits=retry_waits)
            _check_downloaded(url, path=path, part=part, sha256=sha256)
        part.replace(path)


@contextlib.contextmanager
def _directory(folder: Path) -> Iterator[None]:
    """Create a directory, and delete it after an error if it is empty."""
    existing = nearest_existing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        remove_empty(folder, keep=existing)
        raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into the folder; a killed process blocks no other.

    Windows cannot lock folders, so processes do not wait there.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s: waiting for another process to finish its download", folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _check_present(path: Path, *, sha256: str) -> None:
    found = file_sha256(path)
    if found != sha256:
        raise ValueError(
            f"{path} has SHA-256 {found} instead of {sha256}; delete it to download it again"
        )


def _check_downloaded(url: str, *, path: Path, part: Path, sha256: str) -> None:
    found = file_sha256(part)
    if found != sha256:
        part.unlink()
        raise ValueError(
            f"{url}: the download has SHA-256 {found} instead of {sha256} and was removed; "
            f"{_by_hand(path)}"
        )


def _download(url: str, *, path: Path, part: Path, retry_waits: Sequence[float]) -> None:
    for wait in (*retry_waits, None):
        try:
            _append_rest(url, path=path, part=part)
        except _BROKEN_CONNECTION as error:
            if wait is None:
                raise ConnectionError(
                    f"{url}: {_reason(error)}, {len(retry_waits) + 1} tries; "
                    f"run again to resume the download, or {_by_hand(path)}"
                ) from error
            logger.warning("%s: %s; trying again in %g s", url, _reason(error), wait)
            time.sleep(wait)
        else:
            return


def _append_rest(url: str, *, path: Path, part: Path) -> None:
    """Request the bytes that `part` lacks and append them."""
    num_present = part.stat().st_size if part.exists() else 0
    # A compressed answer would have other lengths and ranges.
    headers = {"Accept-Encoding": "identity"}
    if num_present:
        headers["Range"] = f"bytes={num_present}-"
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUTS) as response:
        out_of_range = response.status_code == requests.codes.requested_range_not_satisfiable
        if not (num_present and out_of_range):
            _check_status(response, url=url, path=path)
            _write(response, part=part, num_present=num_present)
            return
    # The range does not exist, so `part` belongs to another file.
    part.unlink()
    _append_rest(url, path=path, part=part)


def _check_status(response: requests.Response, *, url: str, path: Path) -> None:
    answer = f"the server answered {response.status_code} {response.reason}"
    if response.status_code >= 500:
        raise requests.ConnectionError(answer)
    if not response.ok:
        raise ConnectionError(f"{url}: {answer}; {_by_hand(path)}")


def _write(response: requests.Response, *, part: Path, num_present: int) -> None:
    resumed = response.status_code == requests.codes.partial_content
    start = num_present if resumed else 0
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None else None
    with (
        create_file(part, append=resumed) as file,
        tqdm(
            desc=part.stem,
            initial=start,
            total=total,
            unit="B",
            unit_scale=True,
            disable=None,  # no progress bar unless stderr is a terminal
        ) as progress,
    ):
        for chunk in response.iter_content(_CHUNK_SIZE):
            file.write(chunk)
            progress.update(len(chunk))
        file.flush()
        os.fsync(file.fileno())
        num_written = file.tell()
    if total is not None and num_written < total:
        raise requests.ConnectionError(f"the connection broke at byte {num_written} of {total}")


def _reason(error: BaseException) -> str:
    """Return the innermost cause in one line; outer messages repeat the URL and name objects."""
    while error.__context__ is not None:
        error = error.__context__
    return " ".join(str(error).split()) or type(error).__name__


def _by_hand(path: Path) -> str:
    return f"copy the file to {path} yourself"
