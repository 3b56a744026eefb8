"""Paths as users write them."""

from pathlib import Path


def expand_home(path: str | Path, *, key: str) -> Path:
    """Return a path in which `~` or `~NAME` has become a home directory.

    Args:
        path: as it was given.
        key: of the configuration, for the message.

    Raises:
        ValueError: nobody has this name.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"{key}={path}: {Path(path).parts[0]} is no home directory; write the whole path"
        ) from error


def nearest_existing(path: Path) -> Path:
    """Return the path itself or, where it is not there yet, the nearest parent that is."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
