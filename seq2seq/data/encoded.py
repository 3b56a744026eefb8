"""Encode corpora once, store their token ids on disk and map them into memory."""

import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from seq2seq.data.cache import (
    cache_path,
    digest,
    is_cached,
    new_folder,
    remove_abandoned,
    warn_of_damage,
)
from seq2seq.data.config import DataConfig, OnInvalid
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.tokenizers.config import SAMPLING_KEYS, TokenizerConfig
from seq2seq.data.tokenizers.interface import TokenizerPair, TokenizerState
from seq2seq.data.tokenizers.symbols import (
    SYMBOLS,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.files.atomic import DamagedFileError, create_file, load_archive, whole_file
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)

_FORMAT = 3
_CHUNK = 10_000  # pairs in memory at once while a corpus is encoded
_MANY_UNKNOWN = 0.1  # share of unknown tokens above which a warning says so
_MANY_MARKUP = 0.01  # share of pairs with markup above which a warning says so
_HASH_FACTOR = np.uint64(1_000_003)
_MARKUP = re.compile(
    r"</?(?:[abipu]|br|div|em|font|h[1-6]|hr|img|li|ol|span|strong|su[bp]|table|t[dhr]|ul)"
    r"(?:\s[^<>]*)?/?>|&(?:amp|apos|gt|lt|nbsp|quot|#[0-9]+|#x[0-9a-f]+);",
    re.IGNORECASE,
)
"""Common HTML tags, and entities."""

Ids = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

_Scalar = TypeVar("_Scalar", np.uint8, np.int32, np.int64)


@dataclass
class IdRows:
    """Rows of ids of different lengths, concatenated in a flat array."""

    ids: Ids
    offsets: Numbers
    """Row i is ids[offsets[i]:offsets[i + 1]]."""
    lengths: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.diff(self.offsets)

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "IdRows":
        """Return rows of ids in memory."""
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
        return cls(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    @classmethod
    def open(cls, folder: Path, side: str) -> "IdRows":
        """Map the ids that a `RowWriter` wrote."""
        return cls(
            map_array(folder / f"{side}.content", np.int32),
            map_array(folder / f"{side}.offsets", np.int64),
        )


class RowWriter:
    """Writer of the two files of one side of a corpus: the rows, and where each ends."""

    def __init__(self, folder: Path, side: str) -> None:
        """Create the files in a folder; their names begin with `side`."""
        self._content = create_file(folder / f"{side}.content")
        self._offsets = create_file(folder / f"{side}.offsets")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self._end = 0

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self._content.close()
        self._offsets.close()

    def write(self, rows: list[list[int]]) -> Ids:
        """Append rows of ids; return the ids, concatenated."""
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
        self._append(ids.tobytes(), rows)
        return ids

    def write_lines(self, lines: Iterable[str]) -> None:
        """Append lines of text, which may contain line ends."""
        rows = [line.encode("utf-8") for line in lines]
        self._append(b"".join(rows), rows)

    def _append(self, content: bytes, rows: Sequence[Sized]) -> None:
        offsets = self._end + np.cumsum([len(row) for row in rows], dtype=np.int64)
        self._content.write(content)
        self._offsets.write(offsets.tobytes())
        self._end = int(offsets[-1]) if len(rows) else self._end


def map_array(path: Path, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Map a file of numbers into memory, read-only."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
    # As a plain array, since indexing a memmap takes several times as long.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


@dataclass
class TextRows:
    """Lines of text of different lengths, concatenated as UTF-8."""

    content: npt.NDArray[np.uint8]
    offsets: Numbers
    """Line i is content[offsets[i]:offsets[i + 1]]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lines(self, start: int, end: int) -> list[str]:
        """Return the lines from `start` to before `end`."""
        offsets = self.offsets[start : end + 1]
        content = self.content[offsets[0] : offsets[-1]].tobytes()
        bounds = itertools.pairwise((offsets - offsets[0]).tolist())
        return [content[first:last].decode("utf-8") for first, last in bounds]

    @classmethod
    def open(cls, folder: Path, side: str) -> "TextRows":
        """Map the lines that a `RowWriter` wrote."""
        return cls(
            map_array(folder / f"{side}.content", np.uint8),
            map_array(folder / f"{side}.offsets", np.int64),
        )


@dataclass
class EncodedCorpus:
    """Token ids of the pairs of a corpus, without BOS and EOS, as read-only arrays."""

    source_rows: IdRows
    target_rows: IdRows
    indices: Numbers
    """Position of each pair in the iteration over the corpus, which may have more pairs."""
    part_sizes: list[int] = field(default_factory=list)
    """Number of pairs of each part of a joined corpus, one after the other."""

    def __len__(self) -> int:
        return len(self.indices)

    def epoch(self, number: int) -> "EncodedCorpus":
        """Return the ids of an epoch, which are the same in every epoch."""
        return self

    def source(self, row: int) -> Ids:
        return self.source_rows[row]

    def target(self, row: int) -> Ids:
        return self.target_rows[row]

    @property
    def source_lengths(self) -> Numbers:
        return self.source_rows.lengths

    @property
    def target_lengths(self) -> Numbers:
        return self.target_rows.lengths


@dataclass
class _Counts:
    """Statistics of an encoded corpus, stored beside its arrays."""

    pairs: int = 0
    long_pairs: int = 0
    ids: int = 0
    unknown_ids: int = 0
    markup_pairs: int = 0
    part_sizes: list[int] = field(default_factory=list)


def encode_corpus(corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig) -> EncodedCorpus:
    """Return the token ids of a corpus from the cache, after encoding it if necessary.

    Args:
        corpus: Pairs to encode.
        tokenizers: Tokenizers of both languages.
        config: Directory of the cache, maximum length and treatment of longer pairs.

    Raises:
        ValueError: The corpus has no pairs, or pairs are too long.
        OSError: The cache cannot be read or written.
    """
    key = encoding_key(corpus, tokenizers, config)
    folder = cache_path(config.cache_dir) / f"{corpus.name}-{key}"
    if not is_cached(folder):
        with new_folder(folder) as temporary:
            counts = _encode_into(temporary, corpus, tokenizers, config)
            with create_file(temporary / "counts.json") as file:
                file.write(json.dumps(asdict(counts)).encode("ascii"))
    counts = _Counts(**json.loads((folder / "counts.json").read_text(encoding="ascii")))
    _report(corpus.name, counts, max_length=config.max_length)
    source_rows, target_rows = (IdRows.open(folder, side) for side in ("source", "target"))
    indices = map_array(folder / "indices", np.int64)
    return EncodedCorpus(source_rows, target_rows, indices, counts.part_sizes)


def encoding_key(corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig) -> str:
    """Return a short hash of everything that determines the ids of a corpus."""
    return digest(
        [
            _FORMAT,
            corpus.fingerprint,
            tokenizers_state(tokenizers),
            config.max_length,
            config.long_pairs.name,
        ]
    )


def cached_tokenizers(config: TokenizerConfig, corpus: Corpus, cache_dir: str) -> TokenizerPair:
    """Load the tokenizers of a corpus and configuration; train them the first time."""
    settings = {
        key: value.name if isinstance(value, Enum) else value
        for key, value in asdict(config).items()
        if key not in SAMPLING_KEYS
    }
    key = digest([_FORMAT, corpus.fingerprint, type(config).__name__, settings])
    path = cache_path(cache_dir) / f"tokenizers-{key}.pt"
    if path.exists():
        try:
            return _load_tokenizers(path)
        except DamagedFileError:
            warn_of_damage(path)
    state = tokenizers_state(train_tokenizers(config, corpus))
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent)
    with whole_file(path) as file:
        torch.save(state, file)
    return _load_tokenizers(path)


def _load_tokenizers(path: Path) -> TokenizerPair:
    return tokenizers_from_state(cast(dict[str, TokenizerState], load_archive(path)))


def _encode_into(
    folder: Path, corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig
) -> _Counts:
    counts, kept_parts = _Counts(), Counter[int]()
    states = tokenizers_state(tokenizers).values()
    lists = [found for state in states if isinstance(found := state.get(SYMBOLS), list)]
    symbols = set(chain.from_iterable(lists))
    with (
        RowWriter(folder, "source") as source_writer,
        RowWriter(folder, "target") as target_writer,
        create_file(folder / "indices") as indices,
    ):
        for pairs in _chunks(corpus):
            sources = tokenizers.source.encode([pair.source for pair in pairs])
            targets = tokenizers.target.encode([pair.target for pair in pairs])
            longest = np.maximum(list(map(len, sources)), list(map(len, targets)))
            (kept,) = np.nonzero(longest <= config.max_length)
            if config.long_pairs is OnInvalid.error and len(kept) < len(pairs):
                row = int(np.argmax(longest > config.max_length))
                raise ValueError(
                    f"{corpus.name}: pair {counts.pairs + row + 1} has a side of {longest[row]} "
                    f"tokens, more than data.max_length={config.max_length}; raise it or set "
                    "data.long_pairs=skip"
                )
            indices.write((counts.pairs + kept).astype(np.int64).tobytes())
            for writer, encoded in ((source_writer, sources), (target_writer, targets)):
                ids = writer.write([encoded[row] for row in kept])
                counts.ids += len(ids)
                counts.unknown_ids += int(np.count_nonzero(ids == UNK))
            counts.pairs += len(pairs)
            counts.markup_pairs += sum(_has_markup(pair, symbols) for pair in pairs)
            counts.long_pairs += len(pairs) - len(kept)
            kept_parts.update(pairs[row].part for row in kept)
    if counts.pairs == 0:
        raise ValueError(f"{corpus.name}: the corpus has no pairs; give files with text")
    if counts.pairs == counts.long_pairs:
        raise ValueError(
            f"{corpus.name}: all {counts.pairs} pairs are longer than "
            f"data.max_length={config.max_length} tokens; raise it"
        )
    counts.part_sizes = [kept_parts[part] for part in range(max(kept_parts) + 1)]
    return counts


def _has_markup(pair: Pair, symbols: Collection[str]) -> bool:
    """Return whether a side contains HTML that is not a symbol of the tokenizers."""
    return any(
        found[0] not in symbols
        for text in (pair.source, pair.target)
        if "<" in text or "&" in text  # most text has neither, which is faster to find
        for found in _MARKUP.finditer(text)
    )


def _chunks(corpus: Corpus) -> Iterator[list[Pair]]:
    # disable=None: no progress bar unless stderr is a terminal.
    with tqdm(
        corpus.lines(),
        desc=f"encoding {corpus.name}",
        total=corpus.num_lines,
        unit=" pairs",
        disable=None,
    ) as progress:
        pairs = (pair for pair in progress if pair is not None)
        while chunk := list(islice(pairs, _CHUNK)):
            yield chunk


def _report(name: str, counts: _Counts, *, max_length: int) -> None:
    logger.info(
        "%s: %d pairs of %d tokens, %d of them unknown",
        name,
        counts.pairs - counts.long_pairs,
        counts.ids,
        counts.unknown_ids,
    )
    if counts.unknown_ids > _MANY_UNKNOWN * counts.ids:
        logger.warning(
            "%s: %.0f%% of the tokens are unknown, and a model cannot tell them apart; raise "
            "tokenizer.vocabulary_size, use sub-words (tokenizer=unigram), or text closer to the "
            "tokenizer's training data",
            name,
            100 * counts.unknown_ids / counts.ids,
        )
    if counts.markup_pairs > _MANY_MARKUP * counts.pairs:
        logger.warning(
            "%s: %d of %d pairs contain HTML tags or entities, such as <b> or &amp;, which a model "
            "learns to write; remove them, and replace entities by their characters",
            name,
            counts.markup_pairs,
            counts.pairs,
        )
    if counts.long_pairs:
        logger.warning(
            "%s: skipped %d of %d pairs with a side longer than data.max_length=%d tokens",
            name,
            counts.long_pairs,
            counts.pairs,
            max_length,
        )
