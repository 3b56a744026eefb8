"""Cut a stream into windows, process a window in batches, and count what the stream contains."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

from seq2seq.inference.translation import Translation
from seq2seq.search import DecodingConfig

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
    _warn_of_long(lengths)
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


Window = Sequence[tuple[str, str]]
"""Pairs of a source line and a target text that are available together."""
OnTranslation = Callable[[Translation], None]


class StreamCounts:
    """Count the translations of a stream whose input or length deserves a warning.

    Args:
        tags: The symbols of which every source of the training text began with one, or none.
        decoding: The search, whose length limit may cut translations; None for scored pairs.
    """

    def __init__(self, tags: Sequence[str], decoding: DecodingConfig | None) -> None:
        self._tags = tuple(tags)
        self._decoding = decoding
        self._counts: Counter[str] = Counter()

    def add(self, translation: Translation) -> None:
        """Count a translation."""
        source_ids, best = translation.source_ids, translation.best
        num_unknown = translation.num_unknown_tokens
        is_tagged = translation.source.lstrip().startswith(self._tags)
        self._counts.update(
            sentences=1,
            tokens=len(source_ids),
            unknown=num_unknown,
            with_unknown=num_unknown > 0,
            untagged=bool(self._tags and source_ids and not is_tagged),
            cut=not best.finished,
            one_sided=self._decoding is None and bool(source_ids) != bool(best.ids),
        )

    def report(self) -> None:
        """Log a warning for each number above 0."""
        counts = self._counts
        if counts["unknown"]:
            logger.warning(
                "%d of %d source tokens, in %d of %d sentences, are unknown to the model, which "
                "translates the rest; check the language and the characters of the input",
                counts["unknown"],
                counts["tokens"],
                counts["with_unknown"],
                counts["sentences"],
            )
        if counts["untagged"]:
            logger.warning(
                "%d of %d sentences do not begin with a tag of the training text (%s); put the "
                "right one before each line",
                counts["untagged"],
                counts["sentences"],
                ", ".join(self._tags),
            )
        if self._decoding is not None and counts["cut"]:
            logger.warning(
                "%d of %d translations reached the length limit; raise "
                "decoding.max_length_ratio=%s or decoding.max_length_offset=%s for longer ones",
                counts["cut"],
                counts["sentences"],
                self._decoding.max_length_ratio,
                self._decoding.max_length_offset,
            )
        if counts["one_sided"]:
            logger.warning(
                "%d of %d pairs have text on one side only; check that both sides are parallel",
                counts["one_sided"],
                counts["sentences"],
            )
