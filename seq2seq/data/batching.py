"""Token ids of a corpus, the pairs that an epoch takes, and padded batches of them."""

# B batch, S source length, T target length, L links

import itertools
import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seq2seq.checks import Config, Count, counted
from seq2seq.data.config import DataConfig, FilesConfig, SentencePieceConfig, TokenizerConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import SamplingTokenizer, TokenizerPair
from seq2seq.runtime.numerics import copy_to_device, derive_seed
from seq2seq.special_tokens import BOS, EOS, PAD

logger = logging.getLogger(__name__)

Numbers = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer]
"""Integers of any size; ids have the smallest type that fits the vocabulary."""
_POOL = 100_000
"""Number of random pairs that are sorted by length together."""
_BLOCK = 100
"""Number of lines that share a seed; a different number would change the segmentations."""


@dataclass
class IdRows:
    """Rows of ids of different lengths, concatenated in a flat array."""

    ids: Integers
    offsets: Integers
    """Row i is ids[offsets[i] : offsets[i + 1]]; there is one more offset than rows."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Integers:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def lengths(self, rows: Numbers | slice = slice(None)) -> Numbers:
        """Return the lengths of some rows, by default of all."""
        return self.offsets[1:][rows] - self.offsets[:-1][rows]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], *, dtype: npt.DTypeLike = np.int32) -> "IdRows":
        """Return rows of ids in memory."""
        ids, offsets = array(np.dtype(dtype).char), array("q", [0])
        for row in rows:
            ids.extend(row)
            offsets.append(len(ids))
        return cls(np.asarray(ids), np.asarray(offsets))


@dataclass
class EncodedCorpus:
    """Token ids of the pairs of a corpus, without BOS and EOS, as read-only arrays."""

    source_rows: IdRows
    target_rows: IdRows
    indices: Integers
    """Index of each pair in the corpus, which also counts pairs that were skipped."""
    hashes: tuple[Integers, ...] = ()
    """Hashes of the sources and of the targets, to find text that two corpora share."""
    part_sizes: list[int] = field(default_factory=list)
    """Number of pairs in each part of a joined corpus, in order."""
    habits: Mapping[str, float] = field(default_factory=dict)
    """Shares of the pairs with a habit; see `seq2seq.text`."""

    def __len__(self) -> int:
        return len(self.indices)

    def epoch(self, number: int) -> "EncodedCorpus":
        """Return the ids of an epoch, which are the same in every epoch."""
        return self

    def close(self) -> None:
        """Do nothing; there is nothing to stop."""


class TrainingCorpus(Protocol):
    """Token ids of the training pairs, epoch by epoch."""

    def __len__(self) -> int:
        """Return the number of pairs, which is the same in every epoch."""

    def epoch(self, number: int) -> EncodedCorpus:
        """Return the ids of an epoch, counted from 0."""

    def close(self) -> None:
        """Stop preparing the next epoch, which is not needed."""


def samples_segmentations(config: TokenizerConfig) -> TypeGuard[SentencePieceConfig]:
    """Return whether the configuration asks for new segmentations in each epoch."""
    return isinstance(config, SentencePieceConfig) and config.sampling_alpha > 0


class SampledCorpus:
    """Training pairs whose segmentations are drawn again for each epoch: subword regularization.

    SentencePiece samples unigram segmentations (Kudo 2018) or applies BPE-dropout (Provilkov et al.
    2020). The ids of an epoch depend only on the seed of the run and the number of the epoch. The
    ids are kept in memory. During an epoch, a thread reads the text again and draws the next epoch.
    """

    def __init__(
        self,
        encoded: EncodedCorpus,
        corpus: Corpus,
        tokenizers: TokenizerPair,
        *,
        config: SentencePieceConfig,
        seed: int,
    ) -> None:
        """Draw segmentations of a corpus.

        Args:
            encoded: Ids of the most probable segmentations; its pairs are the training pairs.
            corpus: The pairs that were encoded.
            tokenizers: The SentencePiece tokenizers, perhaps with symbols, that encoded the pairs.
            config: Configuration of the tokenizers.
            seed: Seed of the run.
        """
        self._encoded = encoded
        self._corpus = corpus
        self._tokenizers = cast("tuple[SamplingTokenizer, SamplingTokenizer]", tokenizers)
        self._config = config
        self._seed = seed
        self._is_kept = np.zeros(encoded.indices[-1] + 1, dtype=np.bool_)
        self._is_kept[encoded.indices] = True
        self._thread = ThreadPoolExecutor(1)
        self._epochs: dict[int, Future[EncodedCorpus]] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._encoded)

    def epoch(self, number: int) -> EncodedCorpus:
        """Return the ids of an epoch; the latest epoch is kept."""
        self._epochs = {
            each: self._epochs.get(each) or self._thread.submit(self._sample, each)
            for each in (number, number + 1)
        }
        return self._epochs[number].result()

    def close(self) -> None:
        """Stop drawing the next epoch, so that the end of the process does not wait for it."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)

    def _sample(self, number: int) -> EncodedCorpus:
        sides = (self._encoded.source_rows, self._encoded.target_rows)
        source_rows, target_rows = (
            IdRows.of(self._rows(number, side), dtype=rows.ids.dtype)
            for side, rows in enumerate(sides)
        )
        if not len(source_rows) == len(target_rows) == len(self):
            raise ValueError(
                f"{self._corpus.name}: the text has fewer pairs than at the start of the run; "
                "restore the text, and resume the run"
            )
        return EncodedCorpus(source_rows, target_rows, self._encoded.indices)

    def _rows(self, number: int, side: int) -> Iterator[list[int]]:
        """Yield the ids of one side of each pair."""
        pairs = itertools.compress(self._corpus.lines(), self._is_kept)
        texts = (pair.target if side else pair.source for pair in pairs if pair)
        generator = np.random.default_rng(derive_seed(self._seed, "segmentation", number, side))
        seeds = generator.integers(1 << 32, size=-(-len(self) // _BLOCK))  # one seed for each block
        for seed in seeds.tolist():
            if self._closed:
                raise CancelledError
            yield from self._tokenizers[side].sample(
                list(itertools.islice(texts, _BLOCK)),
                seed=seed,
                alpha=self._config.sampling_alpha,
            )


class TokenLinks(IdRows):
    """Links between the tokens of all pairs of an encoded corpus.

    The row of a pair has two indices for each link: the target token, then the source token.
    """

    def guide(self, rows: Numbers, *, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Return gold attention: each target token divides 1 equally among its source tokens.

        Args:
            rows: Rows of the corpus, (B,).
            size: Lengths T and S.

        Returns:
            Shares, (B, T, S); 0 for target tokens without a link, EOS and padding.
        """
        counts = self.lengths(rows)
        ends = counts.cumsum()
        positions = np.arange(ends[-1]) + np.repeat(self.offsets[rows] - ends + counts, counts)
        targets, sources = self.ids[positions].reshape(-1, 2).T  # (L,) each
        owners = np.repeat(np.arange(len(rows)), counts // 2)  # (L,)
        guide = np.zeros((len(rows), *size), dtype=np.float32)
        guide[owners, targets, sources] = 1
        guide /= np.maximum(guide.sum(axis=2, keepdims=True), 1)
        return guide


def link_tokens(
    links: Iterable[tuple[int, int]], source_words: list[int], target_words: list[int]
) -> tuple[Numbers, int]:
    """Link every token of a target word to every token of its source words.

    Args:
        links: Pairs of a source word and a target word, counted from 0.
        source_words: Index of the word of each source token.
        target_words: Index of the word of each target token.

    Returns:
        Target and source token of each link, (L, 2), and the number of links that are lost because
        one of the words has no token of its own.

    Example:
        >>> tokens, num_lost = link_tokens([(0, 1)], source_words=[0, 0], target_words=[0, 1])
        >>> tokens.tolist(), num_lost
        ([[1, 0], [1, 1]], 0)
    """
    size = (max(target_words, default=-1) + 1, max(source_words, default=-1) + 1)
    linked = np.zeros(size, dtype=np.bool_)
    owners = set(itertools.product(source_words, target_words))
    for source, target in owners.intersection(links):
        linked[target, source] = True
    # A word that begins inside a longer token has no token of its own.
    num_lost = sum(link not in owners for link in links)
    tokens = linked[np.ix_(np.array(target_words, int), np.array(source_words, int))]  # (T, S)
    return np.argwhere(tokens), num_lost


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """Corpora joined one after the other, and the number of pairs an epoch draws from each."""

    sizes: tuple[int, ...]
    """Number of pairs in each corpus."""
    counts: tuple[int, ...]
    """Number of pairs drawn from each corpus per epoch; they add up to the size of all corpora."""

    def rows(self, seed: int, epoch: int) -> Numbers:
        """Return the rows of an epoch.

        A corpus is repeated as a whole as often as its count allows; the rest is drawn from it
        without repetition.

        Args:
            seed: Seed of the run.
            epoch: Number of the epoch, from 0.
        """
        generator = np.random.default_rng(derive_seed(seed, "mixture", epoch))
        parts = []
        start = 0
        for size, count in zip(self.sizes, self.counts, strict=True):
            repeats, rest = divmod(count, size)
            parts += [np.arange(start, start + size)] * repeats
            parts.append(start + generator.permutation(size)[:rest])
            start += size
        return np.concatenate(parts)


def mix(sizes: Sequence[int], weights: Sequence[float], *, temperature: float) -> Mixture:
    """Choose how many pairs of each corpus are in an epoch; its length is that of all corpora.

    The share of a corpus of n pairs and weight w is proportional to w * n ** (1 / temperature).
    If temperature and weights are 1, each pair is taken once; a higher temperature takes more pairs
    of small corpora (Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in
    the Wild"). Counts are rounded by largest remainder, and every corpus has at least one pair.

    Args:
        sizes: Pairs of each corpus, at least 1.
        weights: Weight of each corpus, above 0.
        temperature: At least 1.

    Example:
        >>> mix([900, 100], [1, 1], temperature=1).counts
        (900, 100)
        >>> mix([900, 100], [1, 1], temperature=2).counts
        (750, 250)
        >>> mix([900, 100], [1, 3], temperature=1).counts
        (750, 250)
    """
    total = sum(sizes)
    # Logarithms of shares cannot overflow.
    logarithms = np.log(weights) + np.log(sizes) / temperature
    shares = np.exp(logarithms - logarithms.max())
    exact = shares / shares.sum() * total
    # Rounding first keeps 900.0000000001 from counting as more than 900.
    counts = np.floor(np.round(exact, 6)).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    for empty in np.flatnonzero(counts == 0):
        counts[empty] += 1
        counts[counts.argmax()] -= 1
    return Mixture(sizes=tuple(map(int, sizes)), counts=tuple(map(int, counts)))


def training_mixture(data: DataConfig, encoded: EncodedCorpus) -> Mixture | None:
    """Return and log the mixture of joined corpora; None if an epoch takes each pair once.

    Raises:
        ValueError: All pairs of a corpus were left out.
    """
    if not isinstance(data, FilesConfig) or len(data.train_sets()) == 1:
        return None
    sets = data.train_sets()
    sizes = [*encoded.part_sizes, *[0] * (len(sets) - len(encoded.part_sizes))]
    for each, size in zip(sets, sizes, strict=True):
        if size == 0:
            raise ValueError(
                f"{each.key}: all pairs are longer than data.max_length={data.max_length} tokens; "
                "raise it or leave the corpus out"
            )
    mixture = mix(sizes, [each.weight for each in sets], temperature=data.temperature)
    for each, size, count in zip(sets, mixture.sizes, mixture.counts, strict=True):
        logger.info(
            "train: corpus %s, %s: %s, each taken %.2f times an epoch",
            each.name,
            ",".join(each.paths),
            counted(size, "pair"),
            count / size,
        )
    logger.info("train: an epoch has %s", counted(sum(mixture.counts), "pair"))
    return None if mixture.counts == mixture.sizes else mixture


class BatchUnit(Enum):
    """Unit in which the size of a batch is measured."""

    tokens = "tokens"
    """Target tokens with EOS and padding: number of rows times length of the longest row."""
    sentences = "sentences"
    """Sentence pairs."""


@dataclass(kw_only=True, slots=True, repr=False)
class BatchingConfig(Config, section="training.batching"):
    """Size of the batches."""

    size: Count
    """Maximum size of a batch over all processes, in `unit`."""
    unit: BatchUnit


class Batch(NamedTuple):
    """Padded token ids of some pairs; masks are True at real tokens."""

    source_ids: Tensor
    """Source ids with EOS, (B, S)."""
    source_mask: Tensor
    """(B, S)."""
    previous_ids: Tensor
    """BOS and target ids, the input of the decoder, (B, T)."""
    target_ids: Tensor
    """Target ids with EOS, (B, T)."""
    target_mask: Tensor
    """(B, T)."""
    target_places: Tensor
    """Indices of the M real target tokens in `target_ids.flatten()`, ascending, (M,)."""
    indices: Tensor
    """Indices of the pairs in the corpus, (B,); see `EncodedCorpus`."""
    guide: Tensor | None = None
    """Gold attention, (B, T, S), or None; sums to 1 for aligned target tokens, to 0 for all
    others."""

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
        source_ids: Token ids of each source, without BOS and EOS.
        target_ids: Token ids of each target, without BOS and EOS.

    Raises:
        ValueError: There are no pairs, or the numbers of sources and targets differ.

    Example:
        >>> batch = make_batch([[5, 6], [7]], [[8], [9, 5]])
        >>> batch.source_ids.tolist(), batch.target_ids.tolist()
        ([[5, 6, 3], [7, 3, 0]], [[8, 3, 0], [9, 5, 3]])
    """
    sources, targets = zip(*zip(source_ids, target_ids, strict=True), strict=True)
    places = np.arange(len(sources))
    return collate(EncodedCorpus(IdRows.of(sources), IdRows.of(targets), places), places)


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of each epoch: pairs of similar length, each row in exactly one batch.

    A mixture of corpora may repeat a row in an epoch; each repetition is in one batch.

    The batches depend only on the seed and the number of the epoch. With several processes, each
    gets its share of every batch; batches with fewer rows than processes are merged.

    Args:
        corpus: Token ids of the corpus; they may differ from epoch to epoch.
        config: Size of the batches.
        seed: Seed of the order of the pairs.
        rank: Index of this process.
        world_size: Number of processes.
        mixture: Rows of an epoch; None takes each row once.

    Raises:
        ValueError: The corpus has fewer pairs than there are processes.
    """

    corpus: TrainingCorpus
    _: KW_ONLY
    config: BatchingConfig
    seed: int
    rank: int
    world_size: int
    mixture: Mixture | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.world_size
        if len(self.corpus) < self.world_size:
            raise ValueError(
                f"{counted(len(self.corpus), 'pair')} cannot be divided among {self.world_size} "
                "processes; start fewer"
            )

    def epoch(self, number: int) -> list[Numbers]:
        """Return the rows of each batch for this process, at least one per batch."""
        encoded = self.corpus.epoch(number)
        generator = np.random.default_rng(derive_seed(self.seed, "order", number))
        mixture = self.mixture
        rows = len(encoded) if mixture is None else mixture.rows(self.seed, number)
        # Only the order of an epoch takes memory for each pair; the arrays of the corpus are mapped
        # from disk.
        shuffled = generator.permutation(rows)
        shuffled = shuffled.astype(np.min_scalar_type(-len(encoded)))
        batches = []
        for start in range(0, len(shuffled), _POOL):
            pool = _sort(encoded, shuffled[start : start + _POOL])
            batches += _cut(encoded, pool, self.config)
        # Drawn before merging, so the order does not depend on the number of processes.
        positions = generator.permutation(len(batches)).tolist()
        merged = _merge_small(dict(zip(positions, batches, strict=True)), min_rows=self.world_size)
        return [merged[at][self.rank :: self.world_size] for at in sorted(merged)]


def batches_by_length(encoded: EncodedCorpus, size: int) -> list[Numbers]:
    """Return all rows in batches of `size` pairs, the longest sources first."""
    rows = np.lexsort((encoded.target_rows.lengths(), encoded.source_rows.lengths()))[::-1]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _sort(encoded: EncodedCorpus, pool: Numbers) -> Numbers:
    """Sort by target length, then source length; ties keep the order of the pool."""
    target_lengths = encoded.target_rows.lengths(pool)
    source_lengths = encoded.source_rows.lengths(pool)
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
    widths = encoded.target_rows.lengths(pool) + 1  # with EOS
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
    lengths = id_rows.lengths(rows)[:, None]  # (B, 1)
    columns = np.arange(lengths.max() + 1)[None, :]
    positions = id_rows.offsets[rows][:, None] + columns
    within = columns < lengths
    matrix = np.full(positions.shape, PAD, dtype=np.int64)
    matrix[within] = id_rows.ids[positions[within]]
    matrix[columns == lengths] = EOS
    return matrix, columns <= lengths


def _merge_small(batches: dict[int, Numbers], *, min_rows: int) -> dict[int, Numbers]:
    """Merge each batch of too few rows with its neighbors, which have similar lengths.

    Args:
        batches: Batches by position in the epoch, sorted by length; a merged batch gets the last
            of its positions.
        min_rows: Minimum number of rows of a batch.
    """
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
