"""Group the pairs of a corpus into batches, order them, and convert them to padded tensors."""

# B batch, S source length, T target length

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seq2seq.checks import Config, Count, Mark
from seq2seq.data.encoded import EncodedCorpus, IdRows, Numbers
from seq2seq.data.mixtures import Mixture
from seq2seq.data.segmentation import TrainingCorpus
from seq2seq.data.token_links import TokenLinks
from seq2seq.runtime.numerics import copy_to_device, derive_seed
from seq2seq.special_tokens import BOS, EOS, PAD


class BatchUnit(Enum):
    """Unit in which the size of a batch is measured."""

    tokens = "tokens"
    """Target tokens with EOS and padding: number of rows times length of the longest."""
    sentences = "sentences"
    """Pairs."""


@dataclass(kw_only=True, slots=True, repr=False)
class BatchingConfig(Config, section="training.batching", marks=(Mark.named,)):
    """Size of the batches and the pools that they are formed from."""

    size: Count
    """Maximum size of a batch over all processes, in `unit`."""
    unit: BatchUnit
    pool_size: Count
    """Number of random pairs that are sorted by length together; 1 leaves them unsorted."""


class Batch(NamedTuple):
    """Padded token ids of some pairs; masks are True at real tokens."""

    source_ids: Tensor
    """Source and EOS, (B, S)."""
    source_mask: Tensor
    """(B, S)."""
    previous_ids: Tensor
    """BOS and target, the input of the decoder, (B, T)."""
    target_ids: Tensor
    """Target and EOS, (B, T)."""
    target_mask: Tensor
    """(B, T)."""
    target_places: Tensor
    """Places of the M real target tokens in `target_ids.flatten()`, ascending, (M,)."""
    indices: Tensor
    """Positions of the pairs in the iteration over the corpus, (B,)."""
    guide: Tensor | None = None
    """Gold attention, (B, T, S): sums to 1 for aligned target tokens, 0 for others; or None."""

    @property
    def num_target_tokens(self) -> int:
        """Number of real target tokens, EOS included, M; known without reading the device."""
        return len(self.target_places)

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on a device.

        The host does not wait for the copy to a GPU; see `copy_to_device`.
        """
        tensors = {name: each for name, each in self._asdict().items() if each is not None}
        moved = copy_to_device(list(tensors.values()), torch.device(device))
        return self._replace(**dict(zip(tensors, moved, strict=True)))


def collate(encoded: EncodedCorpus, rows: Numbers, *, links: TokenLinks | None = None) -> Batch:
    """Convert rows of a corpus to a batch of padded tensors.

    Args:
        encoded: Token ids of the corpus.
        rows: Indices of the rows, (B,).
        links: Gold links between the tokens of the corpus, for `Batch.guide`.

    Example:
        >>> ids = IdRows.of([[5, 6], [7]])
        >>> encoded = EncodedCorpus(ids, ids, indices=np.arange(2))
        >>> batch = collate(encoded, np.array([0, 1]))
        >>> batch.previous_ids.tolist(), batch.target_ids.tolist()
        ([[2, 5, 6], [2, 7, 0]], [[5, 6, 3], [7, 3, 0]])
    """
    source_ids, source_mask = pad(encoded.source_rows, rows)
    target_ids, target_mask = pad(encoded.target_rows, rows)
    previous_ids = np.empty_like(target_ids)  # (B, T)
    previous_ids[:, 0] = BOS
    # The target shifted by one, without the EOS of rows shorter than T.
    previous_ids[:, 1:] = np.where(target_mask[:, 1:], target_ids[:, :-1], PAD)
    guide = None
    if links is not None:
        guide = torch.from_numpy(links.guide(rows, size=(target_ids.shape[1], source_ids.shape[1])))
    return Batch(
        torch.from_numpy(source_ids),
        torch.from_numpy(source_mask),
        torch.from_numpy(previous_ids),
        torch.from_numpy(target_ids),
        torch.from_numpy(target_mask),
        torch.from_numpy(target_mask.ravel().nonzero()[0]),
        torch.from_numpy(encoded.indices[rows]),
        guide,
    )


def make_batch(source_ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]) -> Batch:
    """Return a batch of pairs that tokenizers have encoded.

    Args:
        source_ids: Ids of each source, without BOS and EOS.
        target_ids: Ids of each target, without BOS and EOS.

    Raises:
        ValueError: There are no pairs, or the numbers of sources and targets differ.

    Example:
        >>> batch = make_batch([[5, 6], [7]], [[8], [9, 5]])
        >>> batch.source_ids.tolist(), batch.target_ids.tolist()
        ([[5, 6, 3], [7, 3, 0]], [[8, 3, 0], [9, 5, 3]])
    """
    if not len(source_ids) == len(target_ids) > 0:
        raise ValueError(
            f"{len(source_ids)} sources and {len(target_ids)} targets; give at least one pair, and "
            "one target for each source"
        )
    places = np.arange(len(source_ids))
    return collate(EncodedCorpus(IdRows.of(source_ids), IdRows.of(target_ids), places), places)


class Batches:
    """The batches of every epoch, each with similar lengths; each row of the epoch is in one.

    A mixture of corpora may repeat a row in an epoch; each repetition is in a batch.

    The batches depend only on the seed and the number of the epoch. With several processes, each
    gets its share of every batch; batches with fewer rows than processes are merged.

    Args:
        corpus: Token ids of the corpus; they may differ from epoch to epoch.
        config: Size of the batches.
        seed: Seed of their order.
        rank: Index of this process.
        world_size: Number of processes.
        mixture: Rows of an epoch; None takes each row once.

    Raises:
        ValueError: The corpus has fewer pairs than there are processes.
    """

    def __init__(
        self,
        corpus: TrainingCorpus,
        *,
        config: BatchingConfig,
        seed: int,
        rank: int,
        world_size: int,
        mixture: Mixture | None = None,
    ) -> None:
        assert 0 <= rank < world_size
        if len(corpus) < world_size:
            raise ValueError(
                f"{len(corpus)} pairs are too few for {world_size} processes; start fewer"
            )
        self._corpus = corpus
        self._config = config
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._mixture = mixture

    def epoch(self, number: int) -> list[Numbers]:
        """Return the rows of each batch for this process, at least one per batch."""
        encoded = self._corpus.epoch(number)
        generator = np.random.default_rng(derive_seed(self._seed, "order", number))
        mixture = self._mixture
        rows = len(encoded) if mixture is None else mixture.rows(self._seed, number)
        shuffled = generator.permutation(rows)
        batches = []
        for start in range(0, len(shuffled), self._config.pool_size):
            pool = _sort(encoded, shuffled[start : start + self._config.pool_size])
            batches += _cut(encoded, pool, self._config)
        # Drawn before merging, so the order does not depend on the number of processes.
        positions = generator.permutation(len(batches)).tolist()
        merged = _merge_small(dict(zip(positions, batches, strict=True)), min_rows=self._world_size)
        return [merged[at][self._rank :: self._world_size] for at in sorted(merged)]


def batches_by_length(encoded: EncodedCorpus, size: int) -> list[Numbers]:
    """Return all rows in batches of `size` pairs, the longest sources first."""
    rows = np.lexsort((encoded.target_lengths, encoded.source_lengths))[::-1]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _sort(encoded: EncodedCorpus, pool: Numbers) -> Numbers:
    """Sort by target length, then source length; ties keep the order of the pool."""
    target_lengths = encoded.target_lengths[pool]
    source_lengths = encoded.source_lengths[pool]
    # Source lengths ascend for even and descend for odd target lengths: a batch with two
    # target lengths then has similar source lengths.
    winding = np.where(target_lengths % 2 == 0, source_lengths, -source_lengths)
    longest = int(source_lengths.max())
    keys = target_lengths * (2 * longest + 1) + longest + winding
    # NumPy sorts keys of 16 bits or fewer by counting, which is faster.
    keys = keys.astype(np.min_scalar_type(int(keys.max())))
    return pool[np.argsort(keys, kind="stable")]


def _cut(encoded: EncodedCorpus, pool: Numbers, config: BatchingConfig) -> list[Numbers]:
    """Split the sorted rows into batches of the configured size."""
    size = config.size
    if config.unit is BatchUnit.sentences:
        return [pool[start : start + size] for start in range(0, len(pool), size)]
    widths = encoded.target_lengths[pool] + 1  # EOS
    counts = np.arange(1, len(pool) + 1)
    batches = []
    start = 0
    while start < len(pool):
        most_rows = max(1, size // int(widths[start]))
        candidates = widths[start : start + most_rows]
        # Widths ascend, so a batch that ends after row i costs (i + 1) * candidates[i].
        costs = candidates * counts[: len(candidates)]
        num_rows = max(1, int(costs.searchsorted(size, side="right")))
        batches.append(pool[start : start + num_rows])
        start += num_rows
    return batches


def pad(id_rows: IdRows, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the rows with EOS as a matrix (B, T), and the mask of their real tokens."""
    lengths = id_rows.lengths[rows][:, None]  # (B, 1)
    columns = np.arange(lengths.max() + 1)[None, :]
    positions = id_rows.offsets[rows][:, None] + columns
    within = columns < lengths
    matrix = np.full(positions.shape, PAD, dtype=np.int64)
    matrix[within] = id_rows.ids[positions[within]]
    matrix[columns == lengths] = EOS
    return matrix, columns <= lengths


def _merge_small(batches: dict[int, Numbers], *, min_rows: int) -> dict[int, Numbers]:
    """Merge each batch of fewer rows with its neighbours, which have similar lengths.

    Args:
        batches: Batches by position in the epoch, sorted by length; a merged one gets the last.
        min_rows: Minimum number of rows of a batch.
    """
    if min_rows == 1:
        return batches
    merged: dict[int, Numbers] = {}
    waiting: list[Numbers] = []
    for position, batch in batches.items():
        waiting.append(batch)
        if sum(map(len, waiting)) >= min_rows:
            merged[position] = np.concatenate(waiting)
            waiting = []
            last = position
    if waiting:
        merged[last] = np.concatenate([merged[last], *waiting])
    return merged
