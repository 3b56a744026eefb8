"""Work through a stream in batches of like length, and answer in its order."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

logger = logging.getLogger(__name__)

WINDOW = 64
"""batches whose sentences are sorted by length together"""
LONG_SENTENCE = 100
"""tokens; a batch of longer sentences holds fewer of them, so that memory stays bounded"""
VERY_LONG = 1000
"""tokens; such sentences are translated too, but whoever waits for them is told"""

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def ignore(answer: object) -> None:
    """Do nothing, where nobody wants to know how far the work is."""


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
    observe: Callable[[_Answer], None] = ignore,
    each: Callable[..., Iterator[Iterable[_Answer]]] = map,
) -> Iterator[_Answer]:
    """Answer each row of a window, the short ones first; yield as soon as those before it are.

    Args:
        answer: returns the answers to a batch of row numbers.
        lengths: in tokens, of each row.
        known: answers to rows that are not asked for.
        batch_size: most rows a batch.
        observe: takes each answer as soon as there is one, before its turn has come.
        each: applies `answer` to all batches, as `map` does.
    """
    _warn_of_long(lengths)
    done = dict(known)
    for known_answer in known.values():
        observe(known_answer)
    rows = sorted(set(range(len(lengths))) - set(done), key=lambda row: (lengths[row], row))
    batches = list(_batches(rows, lengths, batch_size))
    following = 0
    for batch, answers in chain([((), ())], zip(batches, each(answer, batches), strict=True)):
        for row, answered in zip(batch, answers, strict=True):
            done[row] = answered
            observe(answered)
        while following in done:
            yield done.pop(following)
            following += 1


def _warn_of_long(lengths: Sequence[int]) -> None:
    if num_long := sum(length > VERY_LONG for length in lengths):
        logger.warning(
            "sentences of more than %s tokens: %d, the longest of %s; the time and memory that "
            "each takes grow with the square of its length; cut them where sentences end, as "
            "long_lines=split does with lines that no reference or prefix belongs to",
            f"{VERY_LONG:,}",
            num_long,
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
