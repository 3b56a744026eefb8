"""Find files: those that ship with the package, and paths as users write them."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_HASH_CHUNK = 1 << 20
"""Number of bytes that are hashed at once."""


class ReadingError(ValueError):
    """A file, or the value of a key, cannot be read; the cause says why."""

    def __init__(self, what: object, cause: Exception) -> None:
        message = " ".join(str(cause).split())  # torch writes several lines
        super().__init__(f"{what}: {message or type(cause).__name__}")
        self.what = what


@contextlib.contextmanager
def reading(what: object) -> Iterator[None]:
    """Name the file or the key that the block reads in the errors of libraries.

    Libraries raise errors of many types for a damaged file; here all become `ReadingError`. An
    error of the system stays what it is, and a lack of memory passes unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = error.filename or str(what)
        elif not isinstance(error, MemoryError | ReadingError):
            raise ReadingError(what, error) from error
        raise


def expand_home(path: str | Path, *, key: str) -> Path:
    """Replace `~` or `~NAME` at the start of a path with the home directory.

    Args:
        path: Path as it was given.
        key: Configuration key of the path, for the message.

    Raises:
        ReadingError: There is no user of this name.
    """
    with reading(f"{key}={path}"):
        return Path(path).expanduser()


def expand_patterns(paths: Iterable[str], *, key: str, only_directories: bool = False) -> list[str]:
    """Replace each pattern, such as `step-*.pt`, with the files or directories that it matches.

    A pattern without a match stays, so that the error about a missing file names the
    pattern.
    """
    expanded = []
    for path in paths:
        whole = expand_home(path, key=key)
        found = sorted(whole.parent.glob(whole.name)) if "*" in whole.name else []
        expanded += [str(each) for each in found if each.is_dir() or not only_directories] or [path]
    return expanded


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_sha256(path: Path, expected: str, way_out: str) -> None:
    """Raise ValueError if a file has another SHA-256."""
    if (found := file_sha256(path)) != expected:
        raise ValueError(f"{path} has SHA-256 {found} instead of {expected}; {way_out}")


def check_is_free(path: Path, *, key: str, way_out: str = "choose another one") -> None:
    """Raise FileExistsError unless a path does not exist or is an empty directory."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{key}={path} exists; {way_out}")


def nearest_existing(path: Path) -> Path:
    """Return the path if it exists, otherwise its nearest parent that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def resource(path: str) -> Path:
    """Return a path that ships with the package: inside it in a wheel, beside it in a checkout.

    Args:
        path: Relative to the root of a checkout, such as `configs`.
    """
    packaged = _PACKAGE / "resources" / path
    return packaged if packaged.exists() else _PACKAGE.parent / path
