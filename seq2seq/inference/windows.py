"""Cut a stream into windows, and a window into batches of sentences of similar length."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

VERY_LONG = 1000
"""Number of tokens; beyond it, time and memory grow with the square of the length of a sentence."""
LONG_SENTENCE = 100
"""Number of tokens; a batch of longer sentences holds fewer sentences, to bound memory."""
BATCHES_PER_WINDOW = 64
"""Number of batches whose sentences are sorted by length together."""


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


def ignore(result: object) -> None:
    """Do nothing with a result."""


def cut_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Cut a window into batches of bounded size and area, and return the rows of each.

    Short rows come first. Rows without tokens have batches of their own, which need no model.

    Args:
        lengths: Number of tokens of each row.
        batch_size: Maximum number of rows of a batch.

    Example:
        >>> cut_batches([5, 1, 0, 3], batch_size=2)
        [[2], [1, 3], [0]]
    """
    if num_long := sum(length > VERY_LONG for length in lengths):
        logger.warning(
            "sentences of more than %s tokens: %d, the longest of %s; time and memory grow with "
            "the square of the length; split=always splits them",
            f"{VERY_LONG:,}",
            num_long,
            f"{max(lengths):,}",
        )
    batches: list[list[int]] = []
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        area = (len(batch) + 1) * lengths[row]
        is_first_with_tokens = lengths[row] > 0 and batch and lengths[batch[0]] == 0
        is_full = len(batch) == batch_size or area > batch_size * LONG_SENTENCE
        if not batches or is_full or is_first_with_tokens:
            batch = []
            batches.append(batch)
        batch.append(row)
    return batches


def in_order(
    batches: Iterable[Sequence[int]],
    results: Iterable[Iterable[_Result]],
    on_result: Callable[[_Result], None] = ignore,
) -> Iterator[_Result]:
    """Yield the results of batches in the order of their rows.

    A result is yielded as soon as the results of all rows before it are known.

    Args:
        batches: Rows of each batch.
        results: Results of each batch.
        on_result: Called with each result as soon as it is known, in any order.

    Example:
        >>> list(in_order([[1, 2], [0]], ["bc", "a"]))
        ['a', 'b', 'c']
    """
    done: dict[int, _Result] = {}
    following = 0
    for rows, found in zip(batches, results, strict=True):
        for row, result in zip(rows, found, strict=True):
            done[row] = result
            on_result(result)
        while following in done:
            yield done.pop(following)
            following += 1
