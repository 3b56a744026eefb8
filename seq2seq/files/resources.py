"""Find the files that ship with the package."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def resource(path: str) -> Path:
    """Return a path that ships with the package: inside it in a wheel, beside it in a checkout.

    Args:
        path: Relative to the root of a checkout, such as `configs`.
    """
    packaged = _PACKAGE / "resources" / path
    return packaged if packaged.exists() else _PACKAGE.parent / path
