"""Cut a stream into windows, and a window into batches of sentences of similar length."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

VERY_LONG = 1000
"""Tokens; the time and memory of longer sentences grow with the square of their length."""
LONG_SENTENCE = 100
"""Tokens; a batch of longer sentences holds fewer of them, to bound memory."""
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


def ignore(result: object) -> None:
    """Do nothing with a result."""


def map_batches(
    function: Callable[[list[_Item]], Iterable[_Result]],
    items: Sequence[_Item],
    *,
    lengths: Sequence[int],
    batch_size: int,
    known: Mapping[int, _Result],
    on_result: Callable[[_Result], None] = ignore,
    map_function: Callable[..., Iterator[Iterable[_Result]]] = map,
) -> Iterator[_Result]:
    """Process the items of a window in batches, short ones first, and yield results in order.

    A result is yielded as soon as the results of all items before it are known.

    Args:
        function: Returns the results of a batch of items.
        items: The items of the window.
        lengths: Number of tokens of each item.
        batch_size: Most items of a batch.
        known: Results of items that need no processing, by index.
        on_result: Called with each result as soon as it is known, before its turn.
        map_function: Applies `function` to all batches, as `map` does.

    Example:
        >>> def reverse(texts):
        ...     return [text[::-1] for text in texts]
        >>> texts = ["three", "a", "two"]
        >>> list(map_batches(reverse, texts, lengths=[5, 1, 3], batch_size=2, known={}))
        ['eerht', 'a', 'owt']
    """
    if num_long := sum(length > VERY_LONG for length in lengths):
        logger.warning(
            "sentences of more than %s tokens: %d, the longest of %s; time and memory grow with "
            "the square of the length; split them, for example with long_lines=split",
            f"{VERY_LONG:,}",
            num_long,
            f"{max(lengths):,}",
        )
    done = dict(known)
    for result in known.values():
        on_result(result)
    rows = sorted(set(range(len(lengths))) - set(done), key=lambda row: (lengths[row], row))
    batches = list(_batches(rows, lengths, batch_size))
    following = 0
    items_of_batches = [[items[row] for row in batch] for batch in batches]
    results_of_batches = map_function(function, items_of_batches)
    # The first, empty batch yields the known rows before anything is computed.
    for batch, results in chain([((), ())], zip(batches, results_of_batches, strict=True)):
        for row, result in zip(batch, results, strict=True):
            done[row] = result
            on_result(result)
        while following in done:
            yield done.pop(following)
            following += 1


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
