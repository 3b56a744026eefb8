"""Work through a stream in batches of like length, and answer in its order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

WINDOW = 64
"""batches whose sentences are sorted by length together"""
LONG_SENTENCE = 100
"""pieces; a batch of longer sentences holds fewer of them, so that memory stays bounded"""

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def windows(
    items: Iterable[_Item], *, batch_size: int, has_more: Callable[[], bool]
) -> Iterator[list[_Item]]:
    """Cut a stream into lists of `WINDOW` batches, and wherever the next item is waited for.

    Args:
        items: of any number; no more than a window of them is held.
        batch_size: items a batch.
        has_more: says whether another item can be had without waiting.
    """
    window: list[_Item] = []
    for item in items:
        window.append(item)
        if len(window) == WINDOW * batch_size or not has_more():
            yield window
            window = []
    if window:
        yield window


def answer_in_order(
    answer: Callable[[list[int]], Iterable[_Answer]],
    *,
    lengths: Sequence[int],
    known: Mapping[int, _Answer],
    batch_size: int,
) -> Iterator[_Answer]:
    """Answer each row of a window, the short ones first; yield as soon as those before it are.

    Args:
        answer: returns the answers to a batch of row numbers.
        lengths: in pieces, of each row.
        known: answers to rows that are not asked for.
        batch_size: most rows a batch.
    """
    done = dict(known)
    rows = sorted(set(range(len(lengths))) - set(done), key=lambda row: (lengths[row], row))
    following = 0
    for batch in [*_batches(rows, lengths, batch_size), []]:
        if batch:
            done |= dict(zip(batch, answer(batch), strict=True))
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
