"""Cut a stream into windows that are translated one after the other."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")

VERY_LONG = 1000
"""Tokens; the time and memory of longer sentences grow with the square of their length."""
BATCHES_PER_WINDOW = 64
"""Batches whose sentences are sorted by length together."""


def cut_windows(items: Iterable[_Item], batch_size: int) -> Iterator[list[_Item]]:
    """Cut a stream of any length into lists of `BATCHES_PER_WINDOW` batches.

    Args:
        items: Read one window at a time.
        batch_size: Items of a batch.

    Raises:
        ValueError: The batch size is less than 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    remaining = iter(items)
    yield from iter(lambda: list(islice(remaining, BATCHES_PER_WINDOW * batch_size)), [])
