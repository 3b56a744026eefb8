"""Process a stream window by window, in batches of similar length, and keep its order."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

logger = logging.getLogger(__name__)

BATCHES_PER_WINDOW = 64
"""Batches whose sentences are sorted by length together."""
LONG_SENTENCE = 100
"""Tokens; a batch of longer sentences holds fewer of them, to bound memory."""
VERY_LONG = 1000
"""Tokens; longer sentences are translated with a warning."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def ignore(result: object) -> None:
    """Do nothing with a result."""


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
    while window := list(islice(remaining, BATCHES_PER_WINDOW * batch_size)):
        yield window
        del window  # Otherwise two windows are held while the next one is read.


def map_batches(
    function: Callable[[list[int]], Iterable[_Result]],
    *,
    lengths: Sequence[int],
    batch_size: int,
    known: Mapping[int, _Result],
    on_result: Callable[[_Result], None] = ignore,
    map_function: Callable[..., Iterator[Iterable[_Result]]] = map,
) -> Iterator[_Result]:
    """Process the rows of a window in batches, short rows first, and yield in the order of rows.

    A result is yielded as soon as those of all rows before it are known.

    Args:
        function: Returns the results of a batch of row numbers.
        lengths: Number of tokens of each row.
        batch_size: Most rows of a batch.
        known: Results of rows that need no processing.
        on_result: Called with each result as soon as it is known, before its turn.
        map_function: Applies `function` to all batches, as `map` does.

    Example:
        >>> texts = ["three", "a", "two"]
        >>> def reverse(rows):
        ...     return [texts[row][::-1] for row in rows]
        >>> list(map_batches(reverse, lengths=[5, 1, 3], batch_size=2, known={}))
        ['eerht', 'a', 'owt']
    """
    _warn_of_long(lengths)
    done = dict(known)
    for result in known.values():
        on_result(result)
    rows = sorted(set(range(len(lengths))) - set(done), key=lambda row: (lengths[row], row))
    batches = list(_batches(rows, lengths, batch_size))
    following = 0
    results_of_batches = map_function(function, batches)
    # The first, empty batch yields the known rows before anything is computed.
    for batch, results in chain([((), ())], zip(batches, results_of_batches, strict=True)):
        for row, result in zip(batch, results, strict=True):
            done[row] = result
            on_result(result)
        while following in done:
            yield done.pop(following)
            following += 1


def _warn_of_long(lengths: Sequence[int]) -> None:
    if num_long := sum(length > VERY_LONG for length in lengths):
        logger.warning(
            "%d sentences have more than %s tokens, the longest %s; time and memory grow with the "
            "square of the length; split them, for example with long_lines=split",
            num_long,
            f"{VERY_LONG:,}",
            f"{max(lengths):,}",
        )


def _batches(rows: Sequence[int], lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cut rows that are sorted by length into batches of bounded size and area."""
    batch: list[int] = []
    for row in rows:
        if len(batch) == size or (len(batch) + 1) * lengths[row] > size * LONG_SENTENCE:
            if batch:
                yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
