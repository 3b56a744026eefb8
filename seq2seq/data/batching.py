"""Batches: which pairs go together, in which order, and as which tensors."""

# B batch, S source length, T target length

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seq2seq.checks import check_positive
from seq2seq.data.encoded import EncodedCorpus
from seq2seq.data.id_rows import IdRows, Numbers
from seq2seq.data.token_links import TokenLinks
from seq2seq.runtime.seeding import derive_seed
from seq2seq.special_tokens import BOS, EOS, PAD


class BatchUnit(Enum):
    """What the size of a batch counts."""

    tokens = "tokens"
    """target tokens with EOS and padding: rows times the longest of them"""
    sentences = "sentences"


@dataclass(kw_only=True, slots=True)
class BatchingConfig:
    """How large a batch is, over all processes, and what it is put together from."""

    size: int
    unit: BatchUnit
    pool_size: int
    """so many random pairs are sorted by length together; 1 leaves the batches unsorted"""

    def __post_init__(self) -> None:
        check_positive("training.batching", self, "size", "pool_size")


class Batch(NamedTuple):
    """Padded ids of some pairs; a mask is True where a token is real."""

    source_ids: Tensor
    """(B, S) with EOS"""
    source_mask: Tensor
    """(B, S)"""
    previous_ids: Tensor
    """(B, T) BOS and the target"""
    target_ids: Tensor
    """(B, T) the target and EOS"""
    target_mask: Tensor
    """(B, T)"""
    indices: Tensor
    """(B,) positions of the pairs in the iteration over the corpus"""
    guide: Tensor | None = None
    """(B, T, S) shares that add up to 1 where alignments say what to look at, else zeros"""

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on the device."""
        tensors = {name: each for name, each in self._asdict().items() if each is not None}
        return self._replace(**{name: tensor.to(device) for name, tensor in tensors.items()})


def collate(encoded: EncodedCorpus, rows: Numbers, *, links: TokenLinks | None = None) -> Batch:
    """Put these rows of the corpus into padded tensors; with links, attention gets a guide."""
    source_ids, source_mask = _pad(encoded.source_rows, rows)
    target_ids, target_mask = _pad(encoded.target_rows, rows)
    previous_ids = np.empty_like(target_ids)  # (B, T)
    previous_ids[:, 0] = BOS
    # The target shifted by one; the EOS of a row shorter than T is no previous token.
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
        torch.from_numpy(encoded.indices[rows]),
        guide,
    )


class Batches:
    """The batches of every epoch; each row of the corpus is in one of them.

    Their order depends on the seed and the epoch alone. Each process gets its share of every
    batch, so that together they see the batches that one process sees; only a batch with fewer
    rows than there are processes is joined with another.
    """

    def __init__(
        self,
        encoded: EncodedCorpus,
        *,
        config: BatchingConfig,
        seed: int,
        rank: int,
        world_size: int,
    ) -> None:
        assert 0 <= rank < world_size
        if len(encoded) < world_size:
            raise ValueError(
                f"{len(encoded)} pairs do not suffice for {world_size} processes, which need one "
                "each; start fewer processes"
            )
        self._config = config
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._source_lengths = encoded.source_lengths
        self._target_lengths = encoded.target_lengths

    def epoch(self, number: int) -> list[Numbers]:
        """Return this process' rows of each batch; none is empty."""
        generator = np.random.default_rng(derive_seed(self._seed, "order", number))
        shuffled = generator.permutation(len(self._target_lengths))
        batches = []
        for start in range(0, len(shuffled), self._config.pool_size):
            pool = self._sort(shuffled[start : start + self._config.pool_size])
            batches += self._cut(pool)
        # Places are drawn before batches are merged, so that the others keep their order whatever
        # the number of processes.
        places = generator.permutation(len(batches)).tolist()
        placed = _merge_small(dict(zip(places, batches, strict=True)), min_rows=self._world_size)
        return [placed[place][self._rank :: self._world_size] for place in sorted(placed)]

    def _sort(self, pool: Numbers) -> Numbers:
        """Sort by target, then source length; the shuffled pool decides among equals."""
        target_lengths = self._target_lengths[pool]
        source_lengths = self._source_lengths[pool]
        # Up for one target length and down for the next, so that where two target lengths share
        # a batch their source lengths are alike.
        winding = np.where(target_lengths % 2 == 0, source_lengths, -source_lengths)
        longest = int(source_lengths.max())
        keys = target_lengths * (2 * longest + 1) + longest + winding
        # As one number of 16 bits, where the lengths allow it, they are sorted by counting.
        keys = keys.astype(np.min_scalar_type(int(keys.max())))
        return pool[np.argsort(keys, kind="stable")]

    def _cut(self, pool: Numbers) -> list[Numbers]:
        """Cut the sorted rows into batches of the configured size."""
        size = self._config.size
        if self._config.unit is BatchUnit.sentences:
            return [pool[start : start + size] for start in range(0, len(pool), size)]
        widths = self._target_lengths[pool] + 1  # EOS
        counts = np.arange(1, len(pool) + 1)
        batches = []
        start = 0
        while start < len(pool):
            most_rows = max(1, size // int(widths[start]))
            candidates = widths[start : start + most_rows]
            # The widths rise, so a batch that ends after row i costs (i + 1) * candidates[i].
            costs = candidates * counts[: len(candidates)]
            num_rows = max(1, int(costs.searchsorted(size, side="right")))
            batches.append(pool[start : start + num_rows])
            start += num_rows
        return batches


def in_order(encoded: EncodedCorpus, size: int) -> list[Numbers]:
    """Return all rows in batches of `size` similar sentences, the longest sources first."""
    rows = np.lexsort((encoded.target_lengths, encoded.source_lengths))[::-1]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _pad(id_rows: IdRows, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the rows with EOS as one matrix, and where it is no padding."""
    lengths = id_rows.lengths[rows][:, None]  # (B, 1)
    columns = np.arange(lengths.max() + 1)[None, :]
    places = id_rows.offsets[rows][:, None] + columns
    within = columns < lengths
    matrix = np.full(places.shape, PAD, dtype=np.int64)
    matrix[within] = id_rows.ids[places[within]]
    matrix[columns == lengths] = EOS
    return matrix, columns <= lengths


def _merge_small(batches: dict[int, Numbers], *, min_rows: int) -> dict[int, Numbers]:
    """Join each batch of fewer rows with its neighbours, which have about the same length.

    Args:
        batches: by their place in the epoch, sorted by length; a joint one keeps its last place.
        min_rows: so many rows a batch has at least.
    """
    if min_rows == 1:
        return batches
    merged: dict[int, Numbers] = {}
    waiting: list[Numbers] = []
    for place, batch in batches.items():
        waiting.append(batch)
        if sum(map(len, waiting)) >= min_rows:
            merged[place] = np.concatenate(waiting)
            waiting = []
            last = place
    if waiting:
        merged[last] = np.concatenate([merged[last], *waiting])
    return merged
