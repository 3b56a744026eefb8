"""Tokenizers and token ids on disk: computed once, complete or absent."""

import contextlib
import hashlib
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from seq2seq.checks import counted
from seq2seq.data.batching import EncodedCorpus, IdRows, Integers
from seq2seq.data.config import SAMPLING_KEY, DataConfig, TokenizerConfig
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.quality import PairRules, count_faults, hash_text, warn_of_shift, warn_of_text
from seq2seq.data.tokenizers.interface import TokenizerPair, TokenizerState
from seq2seq.data.tokenizers.ruled import (
    model_pair,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.files.atomic import (
    create_file,
    is_temporary,
    load_archive,
    temporary_path,
    whole_file,
)
from seq2seq.files.paths import ReadingError, expand_home, reading
from seq2seq.special_tokens import UNK
from seq2seq.text.sentences import HABITS, count_habits

logger = logging.getLogger(__name__)

_MARKER = "complete.json"
"""File that is written last, with the sizes of the other files."""
_ABANDONED_AFTER = 24 * 3600.0
"""Seconds after which a hidden path counts as abandoned; no write takes so long."""
_FORMAT = 18
_CHUNK = 10_000  # pairs in memory at once while a corpus is encoded
_CHECKED = 10_000  # pairs, from all parts of a corpus, that are checked for faults

_Content = TypeVar("_Content")
Counts = Mapping[str, int]


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


def cached(
    path: Path, create: Callable[[Path], None], read: Callable[[Path], _Content]
) -> _Content:
    """Return the content of a file or folder in the cache, which is complete or absent.

    If several processes create the same content, the first to finish wins.

    Args:
        path: Path in the cache.
        create: Writes the content to a hidden path; called if the content is missing or damaged.
        read: Reads the content; raises `ReadingError` if it differs from what was written.
    """
    if path.exists():
        try:
            return read(path)
        except (ReadingError, FileNotFoundError):
            logger.warning("%s: damaged cache; it is created again", path)
            _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    hidden = temporary_path(path)
    try:
        create(hidden)
        hidden.rename(path)
    except OSError:
        # Another process may have been faster and have written the same content.
        if not path.exists():
            raise
    finally:
        _remove(hidden)
    return read(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_abandoned(cache: Path) -> None:
    """Delete hidden files and folders that killed processes left more than a day ago."""
    for path in filter(is_temporary, cache.glob(".*")):
        with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
            if path.stat().st_mtime < time.time() - _ABANDONED_AFTER:
                _remove(path)


class ArrayWriter:
    """Writer of a folder of .npy files in parts, so that no array has to fit into memory."""

    def __init__(self, folder: Path) -> None:
        """Create the folder."""
        folder.mkdir()
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._types: dict[str, str] = {}
        self._lengths = Counter[str]()

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            file.close()

    def append(self, name: str, numbers: Integers) -> None:
        """Append numbers to an array; the first numbers decide its type."""
        if name not in self._files:
            self._files[name] = create_file(self._folder / f"{name}.npy")
            self._types[name] = numbers.dtype.str
            self._write_header(name)
        self._files[name].write(numbers.data)
        self._lengths[name] += len(numbers)

    def append_rows(self, name: str, rows: IdRows) -> None:
        """Append rows of ids, stored as an array of ids and an array of offsets."""
        is_first = name not in self._files
        offsets = self._lengths[name] + rows.offsets
        self.append(name, rows.ids)
        self.append(f"{name}_offsets", offsets if is_first else offsets[1:])

    def finish(self, counts: Counts) -> None:
        """Complete the arrays and write the marker, which also stores the counts."""
        sizes = {}
        for name, file in self._files.items():
            sizes[name] = file.tell()
            file.seek(0)
            self._write_header(name)
            file.close()
        with create_file(self._folder / _MARKER) as file:
            file.write(json.dumps({"sizes": sizes, "counts": counts}).encode("ascii"))

    def _write_header(self, name: str) -> None:
        """Write the header, whose size is the same for any length."""
        shape = (self._lengths[name],)
        header = {"descr": self._types[name], "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._files[name], header)


def read_arrays(folder: Path) -> tuple[dict[str, Integers], Counts]:
    """Map the arrays of a folder into memory, read-only; return them and the counts.

    Raises:
        OSError: A file cannot be read, for example because too many are open.
        ReadingError: A file is missing, or its size is not what was written.
    """
    with reading(folder):
        marker = json.loads((folder / _MARKER).read_text(encoding="ascii"))
        arrays = {}
        for name, size in marker["sizes"].items():
            path = folder / f"{name}.npy"
            mapped = np.load(path, mmap_mode="r")
            if not mapped.offset + mapped.nbytes == size == path.stat().st_size:
                raise ValueError("its size is not what was written")
            # A plain array, since indexing a memmap takes several times as long.
            arrays[name] = np.asarray(mapped)
        return arrays, marker["counts"]


def encode_corpus(
    corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig, *, is_training: bool = True
) -> EncodedCorpus:
    """Return the token ids of a corpus from the cache, after encoding it if necessary.

    Args:
        corpus: Text of the user.
        tokenizers: Tokenizers of both languages.
        config: Directory of the cache, and maximum length.
        is_training: As in `model_pair`.

    Raises:
        ValueError: The corpus has no pairs, or pairs are too long.
        OSError: The cache cannot be read or written.
    """
    name, key = corpus.name, encoding_key(corpus, tokenizers, config)
    arrays, counts = cached(
        cache_path(config.cache_dir) / f"{name}-{key}",
        lambda folder: _encode_into(folder, corpus, tokenizers, config, is_training),
        read_arrays,
    )
    encoded = EncodedCorpus(
        IdRows(arrays["source"], arrays["source_offsets"]),
        IdRows(arrays["target"], arrays["target_offsets"]),
        arrays["indices"],
        (arrays["source_hashes"], arrays["target_hashes"]),
        arrays["part_sizes"].tolist(),
        {name: counts[name] / counts["pairs"] for name in HABITS},
    )
    logger.info(
        "%s: %s with %s, %s of them unknown",
        name,
        counted(len(encoded), "pair"),
        counted(counts["source_ids"] + counts["target_ids"], "token"),
        f"{counts['unknown_source_ids'] + counts['unknown_target_ids']:,}",
    )
    if skipped := corpus.num_lines - counts["pairs"]:
        logger.warning(
            "%s: skipped %d of %d pairs with an empty side or bytes that are not UTF-8; the first "
            "is %s",
            name,
            skipped,
            corpus.num_lines,
            corpus.place(counts["first_skipped"]),
        )
    if counts["long_pairs"]:
        logger.warning(
            "%s: skipped %d of %d pairs with a side longer than data.max_length=%d tokens; the "
            "first is %s",
            name,
            counts["long_pairs"],
            counts["pairs"],
            config.max_length,
            corpus.place(counts["first_long"]),
        )
    warn_of_text(name, counts)
    warn_of_shift(name, encoded)
    return encoded


def encoding_key(corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig) -> str:
    """Return a short hash of everything that determines the ids of a corpus and its faults."""
    return digest(
        [
            _FORMAT,
            corpus.fingerprint,
            tokenizers_state(tokenizers),
            config.max_length,
            config.source,
            config.target,
        ]
    )


def cached_tokenizers(config: TokenizerConfig, corpus: Corpus, cache_dir: str) -> TokenizerPair:
    """Load the tokenizers of a corpus and configuration; train them the first time."""
    settings = {key: value for key, value in asdict(config).items() if key != SAMPLING_KEY}
    text = [corpus.fingerprint, *corpus.languages]
    key = digest([_FORMAT, text, type(config).__name__, settings])

    def create(path: Path) -> None:
        state = tokenizers_state(train_tokenizers(config, corpus))
        with whole_file(path) as file:
            torch.save(state, file)

    def read(path: Path) -> TokenizerPair:
        return tokenizers_from_state(cast(dict[str, TokenizerState], load_archive(path)))

    return cached(cache_path(cache_dir) / f"tokenizers-{key}.pt", create, read)


def _encode_into(
    folder: Path,
    corpus: Corpus,
    tokenizers: TokenizerPair,
    config: DataConfig,
    is_training: bool,
) -> None:
    counts, part_sizes = Counter[str](), Counter[int]()
    rules, step = PairRules(config.source, config.target), 1 + corpus.num_lines // _CHECKED
    with ArrayWriter(folder) as writer:
        for chunk in _chunks(corpus, counts):
            indices, user_pairs = zip(*chunk, strict=True)
            pairs = [
                model_pair(pair, tokenizers.source.rules, is_training=is_training)
                for pair in user_pairs
            ]
            sources = tokenizers.source.encode([pair.source for pair in pairs])
            targets = tokenizers.target.encode([pair.target for pair in pairs])
            longest = np.maximum(list(map(len, sources)), list(map(len, targets)))
            (kept,) = np.nonzero(longest <= config.max_length)
            if len(kept) < len(pairs):
                row = int(np.argmax(longest > config.max_length))
                counts.setdefault("first_long", indices[row] + 1)
            writer.append("indices", np.array(indices)[kept])
            for name, tokenizer, encoded in zip(
                ("source", "target"), tokenizers, (sources, targets), strict=True
            ):
                hashes = [hash_text(getattr(user_pairs[row], name)) for row in kept]
                writer.append(f"{name}_hashes", np.array(hashes, dtype=np.int64))
                dtype = np.min_scalar_type(len(tokenizer) - 1)
                rows = IdRows.of((encoded[row] for row in kept), dtype=dtype)
                writer.append_rows(name, rows)
                counts[f"{name}_ids"] += len(rows.ids)
                counts[f"unknown_{name}_ids"] += int(np.count_nonzero(rows.ids == UNK))
            texts = [(pair.source, pair.target) for pair in pairs]
            begins = counts["pairs"] == 0
            if begins:
                rules.fit(texts)
            counts.update(count_faults(texts[::step], rules, begins=begins))
            counts.update(count_habits(texts))
            counts["pairs"] += len(pairs)
            counts["long_pairs"] += len(pairs) - len(kept)
            part_sizes.update(pairs[row].part for row in kept)
        if counts["pairs"] == counts["long_pairs"]:
            raise ValueError(
                f"{corpus.path or corpus.name}: no pair is left of {corpus.num_lines}; pairs with "
                f"a side longer than data.max_length={config.max_length}: {counts['long_pairs']}"
            )
        sizes = [part_sizes[part] for part in range(max(part_sizes) + 1)]
        writer.append("part_sizes", np.array(sizes))
        writer.finish(counts)


def _chunks(corpus: Corpus, counts: Counter[str]) -> Iterator[list[tuple[int, Pair]]]:
    """Yield pairs and their indices, and note the first pair that is skipped."""

    def pairs() -> Iterator[tuple[int, Pair]]:
        for index, pair in enumerate(progress):
            if pair is None:
                counts.setdefault("first_skipped", index + 1)
            else:
                yield index, pair

    # disable=None shows a progress bar only if stderr is a terminal.
    with tqdm(
        corpus.lines(),
        desc=f"encoding {corpus.name}",
        total=corpus.num_lines,
        unit=" pairs",
        disable=None,
    ) as progress:
        found = pairs()
        while chunk := list(islice(found, _CHUNK)):
            yield chunk
