"""Count the pairs that a corpus to score shares with the training text."""

import numpy as np
import numpy.typing as npt

from seq2seq.data.encoded import EncodedCorpus
from seq2seq.data.id_rows import IdRows, Numbers
from seq2seq.special_tokens import UNK

_FACTOR = np.uint64(1_000_003)


def count_shared_pairs(corpus: EncodedCorpus, train: EncodedCorpus) -> int:
    """Return how many pairs of a corpus are also in the training text, with the same token ids.

    Pairs with unknown tokens are not counted, because different words share their id.

    Args:
        corpus: Pairs to count.
        train: The training text, encoded with the same tokenizers.

    Example:
        >>> def encoded(*rows: list[int]) -> EncodedCorpus:
        ...     offsets = np.cumsum([0, *map(len, rows)])
        ...     sides = IdRows(np.concatenate(rows).astype(np.int32), offsets)
        ...     return EncodedCorpus(sides, sides, np.arange(len(rows)))
        >>> count_shared_pairs(encoded([5, 6], [7]), encoded([7], [5, 7], [6, 5]))
        1
    """
    keys = _keys(corpus)
    # Only the rows whose lengths and ends fit are compared as a whole.
    (candidates,) = np.nonzero(np.isin(_keys(train), keys))
    known = {_pair(train, row) for row in candidates.tolist()} - {None}
    return sum(_pair(corpus, row) in known for row in range(len(corpus)))


def _pair(corpus: EncodedCorpus, row: int) -> tuple[bytes, bytes] | None:
    """Return the ids of a pair, or None if one is unknown."""
    sides = corpus.source(row), corpus.target(row)
    if any((side == UNK).any() for side in sides):
        return None
    return sides[0].tobytes(), sides[1].tobytes()


def _keys(corpus: EncodedCorpus) -> npt.NDArray[np.uint64]:
    """Return a hash of the length, the first and the last id of both sides of each pair."""
    keys = np.zeros(len(corpus), dtype=np.uint64)
    for rows in (corpus.source_rows, corpus.target_rows):
        starts, ends = rows.offsets[:-1], rows.offsets[1:]
        for values in (rows.lengths, _ids_at(rows, starts), _ids_at(rows, ends - 1)):
            keys = keys * _FACTOR + values.astype(np.uint64)  # wraps around
    return keys


def _ids_at(rows: IdRows, positions: Numbers) -> Numbers:
    """Return an id of each row, 0 for an empty one."""
    ids = np.zeros(len(positions), dtype=np.int64)
    filled = rows.lengths > 0
    ids[filled] = rows.ids[positions[filled]]
    return ids
