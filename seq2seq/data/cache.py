"""Tokenizers and token ids on disk: computed once, checked before use, complete or absent."""

import contextlib
import hashlib
import json
import logging
import re
import shutil
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from seq2seq.checks import counted
from seq2seq.data.batching import EncodedCorpus, IdRows, Ids, map_array
from seq2seq.data.config import SAMPLING_KEYS, DataConfig, OnInvalid, TokenizerConfig
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.tokenizers.interface import (
    SymbolTokenizer,
    TokenizerPair,
    TokenizerState,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.files.atomic import (
    DamagedFileError,
    create_file,
    is_temporary,
    load_archive,
    temporary_path,
    whole_file,
)
from seq2seq.files.paths import expand_home, nearest_existing
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)

_CHECKSUMS = "checksums.json"
_ABANDONED_AFTER = 3600.0
"""Seconds; a process that fills a folder writes to it much more often."""
_FORMAT = 3
_CHUNK = 10_000  # pairs in memory at once while a corpus is encoded
_MANY_UNKNOWN = 0.1  # share of unknown tokens above which a warning says so
_MANY_MARKUP = 0.01  # share of pairs with markup above which a warning says so
_FEW = 20  # pairs, equal or repeated, that are no reason for a warning
_MANY_EQUAL = 0.05  # share of pairs with equal sides above which a warning says so
_MANY_REPEATED = 0.3  # share of pairs that occurred before above which a warning says so
_MOST_SHIFT = 3  # lines that one of two files may lack
_FEWEST, _MOST_BLOCKS = 200, 20  # pairs of a block; by chance their lengths correlate by 0.07
_BETTER_FIT = 0.4  # gain in correlation by a shift above which a warning says so
_MARKUP = re.compile(
    r"</?(?:[abipu]|br|div|em|font|h[1-6]|hr|img|li|ol|span|strong|su[bp]|table|t[dhr]|ul)"
    r"(?:\s[^<>]*)?/?>|&(?:amp|apos|gt|lt|nbsp|quot|#[0-9]+|#x[0-9a-f]+);",
    re.IGNORECASE,
)
"""Common HTML tags, and entities."""


def digest(value: object) -> str:
    """Return a short hash of nested lists, dictionaries, tensors and plain values."""
    text = json.dumps(value, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _plain(value: object) -> str:
    """Return the bytes of a tensor, or the name of an enumeration's member, for JSON."""
    assert isinstance(value, Tensor | Enum)
    return value.name if isinstance(value, Enum) else np.asarray(value).tobytes().hex()


def cache_path(cache_dir: str) -> Path:
    """Return the path of the cache directory, which may begin with `~`."""
    return expand_home(cache_dir, key="data.cache_dir")


def check_cache(cache_dir: str) -> None:
    """Raise ValueError if the cache directory cannot be created because of a file."""
    existing = nearest_existing(cache_path(cache_dir))
    if not existing.is_dir():
        raise ValueError(
            f"data.cache_dir={cache_dir}: {existing} is not a directory; choose another, which is "
            "created if it is missing"
        )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` at the end; an error removes it.

    The checksums of its files are written beside them for `is_cached`.

    If several processes create the same folder, the first to finish wins.
    """
    with scratch_folder(folder) as temporary:
        yield temporary
        checksums = json.dumps(_checksums(temporary))
        with create_file(temporary / _CHECKSUMS) as file:
            file.write(checksums.encode("ascii"))
        try:
            temporary.rename(folder)
        except OSError:
            # Another process was faster and wrote the same.
            if not folder.is_dir():
                raise


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Yield a new hidden folder beside `folder`, which is deleted at the end."""
    remove_abandoned(folder.parent)
    temporary = temporary_path(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_cached(folder: Path) -> bool:
    """Return whether `new_folder` has created the folder; a damaged one is deleted."""
    if not folder.is_dir():
        return False
    try:
        written = json.loads((folder / _CHECKSUMS).read_text(encoding="ascii"))
        if written == _checksums(folder):
            return True
    except (OSError, ValueError):  # missing, or no JSON
        pass
    warn_of_damage(folder)
    # Under its own name, the folder is complete or absent.
    doomed = temporary_path(folder)
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    return False


def warn_of_damage(path: Path) -> None:
    """Log that a file or folder of the cache is created again."""
    logger.warning("%s: damaged cache; it is created again", path)


def _checksums(folder: Path) -> dict[str, int]:
    """Return the CRC-32 of each file in a folder."""
    return {
        path.name: zlib.crc32(map_array(path, np.uint8).data)
        for path in sorted(folder.iterdir())
        if path.name != _CHECKSUMS
    }


def remove_abandoned(cache: Path) -> None:
    """Delete hidden files and folders that killed processes left more than an hour ago."""
    for path in filter(is_temporary, cache.glob(".*.*-*")):
        with contextlib.suppress(FileNotFoundError):  # its process has just renamed it
            last_written = max(each.stat().st_mtime for each in (path, *path.glob("*")))
            if last_written < time.time() - _ABANDONED_AFTER:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()


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

    def write(self, rows: Sequence[Sequence[int]]) -> Ids:
        """Append rows of ids; return the ids, concatenated."""
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
        self._append(ids.tobytes(), rows)
        return ids

    def write_lines(self, lines: Iterable[str]) -> None:
        """Append lines of text, which may contain line ends."""
        rows = [line.encode("utf-8") for line in lines]
        self._append(b"".join(rows), rows)

    def _append(self, content: bytes, rows: Sequence[Sized]) -> None:
        ends = self._end + np.cumsum([0, *map(len, rows)], dtype=np.int64)
        self._end = int(ends[-1])
        self._content.write(content)
        self._offsets.write(ends[1:].tobytes())


@dataclass
class _Counts:
    """Statistics of an encoded corpus, stored beside its arrays."""

    pairs: int = 0
    long_pairs: int = 0
    ids: int = 0
    unknown_ids: int = 0
    markup_pairs: int = 0
    equal_pairs: int = 0
    repeated_pairs: int = 0
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
    _report(corpus.name, counts, config)
    source_rows, target_rows = (IdRows.open(folder, side) for side in ("source", "target"))
    indices = map_array(folder / "indices", np.int64)
    encoded = EncodedCorpus(source_rows, target_rows, indices, counts.part_sizes)
    _report_shift(corpus.name, encoded)
    return encoded


def encoding_key(corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig) -> str:
    """Return a short hash of everything that determines the ids of a corpus."""
    return digest(
        [
            _FORMAT,
            corpus.fingerprint,
            tokenizers_state(tokenizers),
            config.max_length,
            config.long_pairs,
        ]
    )


def cached_tokenizers(config: TokenizerConfig, corpus: Corpus, cache_dir: str) -> TokenizerPair:
    """Load the tokenizers of a corpus and configuration; train them the first time."""
    settings = {key: value for key, value in asdict(config).items() if key not in SAMPLING_KEYS}
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
    counts, kept_parts, hashes = _Counts(), Counter[int](), array("q")
    symbols = {
        name for each in tokenizers if isinstance(each, SymbolTokenizer) for name in each.symbols
    }
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
            counts.equal_pairs += sum(pair.source == pair.target for pair in pairs)
            hashes.extend(hash(pair[:2]) for pair in pairs)
            counts.long_pairs += len(pairs) - len(kept)
            kept_parts.update(pairs[row].part for row in kept)
    if counts.pairs == 0:
        raise ValueError(f"{corpus.name}: the corpus has no pairs; give files with text")
    if counts.pairs == counts.long_pairs:
        raise ValueError(
            f"{corpus.name}: no pair is left of {counts.pairs}, because each has a side longer "
            f"than data.max_length={config.max_length}; raise it"
        )
    counts.repeated_pairs = len(hashes) - len(np.unique(np.asarray(hashes)))
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


def _report(name: str, counts: _Counts, config: DataConfig) -> None:
    logger.info(
        "%s: %s of %s, %s of them unknown",
        name,
        counted(counts.pairs - counts.long_pairs, "pair"),
        counted(counts.ids, "token"),
        f"{counts.unknown_ids:,}",
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
            "%s: pairs with HTML tags or entities, such as <b> or &amp;, which a model learns to "
            "write: %d of %d; remove them, and replace entities by their characters",
            name,
            counts.markup_pairs,
            counts.pairs,
        )
    if (
        counts.equal_pairs > max(_FEW, _MANY_EQUAL * counts.pairs)
        and config.source != config.target
    ):
        logger.warning(
            "%s: %d of %d pairs have the same text on both sides, which a model learns to copy; "
            "remove them, or give equal data.source and data.target to learn to copy",
            name,
            counts.equal_pairs,
            counts.pairs,
        )
    if counts.repeated_pairs > max(_FEW, _MANY_REPEATED * counts.pairs):
        logger.warning(
            "%s: %d of %d pairs repeat an earlier pair; remove them, because a model learns them "
            "by heart and learns little else",
            name,
            counts.repeated_pairs,
            counts.pairs,
        )
    if counts.long_pairs:
        logger.warning(
            "%s: skipped %d of %d pairs with a side longer than data.max_length=%d tokens",
            name,
            counts.long_pairs,
            counts.pairs,
            config.max_length,
        )


def _report_shift(name: str, encoded: EncodedCorpus) -> None:
    """Warn of a block of pairs whose sources fit the targets of other pairs by their lengths."""
    sources, targets = (
        np.log1p(rows.lengths) for rows in (encoded.source_rows, encoded.target_rows)
    )
    size = max(_FEWEST, len(encoded) // _MOST_BLOCKS)
    if len(encoded) < size + 2 * _MOST_SHIFT:
        return
    starts = np.linspace(_MOST_SHIFT, len(encoded) - size - _MOST_SHIFT, _MOST_BLOCKS)
    for start in starts.astype(int):
        with np.errstate(invalid="ignore"):  # lengths that are all equal
            fits = {
                shift: np.corrcoef(sources[start:][:size], targets[start + shift :][:size])[0, 1]
                for shift in range(-_MOST_SHIFT, _MOST_SHIFT + 1)
            }
        best = max(fits, key=lambda shift: fits[shift])
        if fits[best] > fits[0] + _BETTER_FIT:
            pair = int(encoded.indices[start + size // 2]) + 1
            logger.warning(
                "%s: by their lengths, the sources around pair %d fit the targets around pair %d "
                "better than their own (correlation %.2f, not %.2f); look for a line that one side "
                "lacks",
                name,
                pair,
                pair + best,
                fits[best],
                fits[0],
            )
            return
