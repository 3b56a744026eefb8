"""Encode corpora once, store their token ids on disk and map them into memory."""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
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
from seq2seq.data.id_rows import IdRows, Ids, Numbers, RowWriter, map_array
from seq2seq.data.tokenizers.base import TokenizerPair, TokenizerState
from seq2seq.data.tokenizers.config import SAMPLING_KEYS, TokenizerConfig
from seq2seq.data.tokenizers.registry import (
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.files.archive import DamagedFileError, load_archive
from seq2seq.files.atomic import create_file, whole_file
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)

_FORMAT = 1
_CHUNK = 10_000  # pairs in memory at once while a corpus is encoded
_MANY_UNKNOWN = 0.1  # share of unknown tokens above which a warning says so


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
        """Return the ids of an epoch of training, which are the same in all."""
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
    encoded, counts = _open(folder)
    _report(corpus.name, counts, max_length=config.max_length)
    return encoded


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
    with (
        RowWriter(folder, "source") as source_writer,
        RowWriter(folder, "target") as target_writer,
        create_file(folder / "indices") as indices,
    ):
        for pairs in _chunks(corpus):
            sources = tokenizers.source.encode([pair.source for pair in pairs])
            targets = tokenizers.target.encode([pair.target for pair in pairs])
            longest = np.maximum(list(map(len, sources)), list(map(len, targets)))
            if config.long_pairs is OnInvalid.error:
                _check_lengths(longest, config, name=corpus.name, num_before=counts.pairs)
            (kept,) = np.nonzero(longest <= config.max_length)
            indices.write((counts.pairs + kept).astype(np.int64).tobytes())
            for writer, encoded in ((source_writer, sources), (target_writer, targets)):
                ids = writer.write([encoded[row] for row in kept])
                counts.ids += len(ids)
                counts.unknown_ids += int(np.count_nonzero(ids == UNK))
            counts.pairs += len(pairs)
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


def _check_lengths(longest: Numbers, config: DataConfig, *, name: str, num_before: int) -> None:
    (too_long,) = np.nonzero(longest > config.max_length)
    if len(too_long):
        row = int(too_long[0])
        raise ValueError(
            f"{name}: pair {num_before + row + 1} has a side of {longest[row]} tokens, more than "
            f"data.max_length={config.max_length}; raise it or set data.long_pairs=skip"
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


def _open(folder: Path) -> tuple[EncodedCorpus, _Counts]:
    counts = _Counts(**json.loads((folder / "counts.json").read_text(encoding="ascii")))
    source_rows, target_rows = (IdRows.open(folder, side) for side in ("source", "target"))
    indices = map_array(folder / "indices", np.int64)
    return EncodedCorpus(source_rows, target_rows, indices, counts.part_sizes), counts


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
            "%s: %.0f%% of the tokens are unknown, and a model cannot tell them apart; a larger "
            "tokenizer.vocabulary_size, sub-words (tokenizer=unigram) or text like that which the "
            "tokenizer was trained on have fewer",
            name,
            100 * counts.unknown_ids / counts.ids,
        )
    if counts.long_pairs:
        logger.warning(
            "%s: skipped %d of %d pairs with a side longer than data.max_length=%d tokens",
            name,
            counts.long_pairs,
            counts.pairs,
            max_length,
        )
