"""Draw new segmentations of the training text for each epoch: sub-word regularisation.

Sources: unigram sampling by Kudo (2018), "Subword Regularization", and BPE-dropout by Provilkov et
al. (2020), both as SentencePiece computes them.
"""

import itertools
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq.data.batching import EncodedCorpus, IdRows, Numbers, TrainingCorpus, map_array
from seq2seq.data.cache import (
    RowWriter,
    cache_path,
    encoding_key,
    is_cached,
    new_folder,
    scratch_folder,
)
from seq2seq.data.config import DataConfig, SentencePieceConfig, TokenizerConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import (
    SamplingTokenizer,
    SymbolTokenizer,
    Tokenizer,
    TokenizerPair,
)
from seq2seq.runtime.numerics import derive_seed

_BLOCK = 100
"""Lines that share a seed; another number would give other segmentations."""


def samples_segmentations(config: TokenizerConfig) -> bool:
    """Return whether the configuration asks for new segmentations in each epoch."""
    return isinstance(config, SentencePieceConfig) and config.sampling_alpha > 0


def training_corpus(
    encoded: EncodedCorpus,
    corpus: Corpus,
    tokenizers: TokenizerPair,
    *,
    config: TokenizerConfig,
    data: DataConfig,
    seed: int,
) -> TrainingCorpus:
    """Return the encoded corpus, or its pairs with new segmentations if the configuration asks.

    Args:
        encoded: Ids of the most probable segmentations; its pairs are the training pairs.
        corpus: The pairs that were encoded.
        tokenizers: The tokenizers that encoded them.
        config: Configuration of the tokenizers.
        data: Configuration of the corpus.
        seed: Seed of the run.

    Raises:
        ValueError: The tokenizers cannot draw segmentations.
        OSError: The cache cannot be read or written.
    """
    if not isinstance(config, SentencePieceConfig) or config.sampling_alpha == 0:
        return encoded
    key = encoding_key(corpus, tokenizers, data)
    folder = cache_path(data.cache_dir) / f"text-{key}"
    if not is_cached(folder):
        with new_folder(folder) as temporary:
            _write_texts(temporary, corpus, kept=encoded.indices)
    return SampledCorpus(
        _Sampler(
            sources=TextRows.open(folder, "source"),
            targets=TextRows.open(folder, "target"),
            indices=encoded.indices,
            tokenizers=(_sampling(tokenizers.source), _sampling(tokenizers.target)),
            alpha=config.sampling_alpha,
            nbest=config.sampling_nbest,
            seed=seed,
            scratch=folder.with_name(f"epoch-{key}"),
        )
    )


def _sampling(tokenizer: Tokenizer) -> SamplingTokenizer:
    inner = tokenizer.inner if isinstance(tokenizer, SymbolTokenizer) else tokenizer
    if not isinstance(inner, SamplingTokenizer):
        raise ValueError(
            "tokenizer.sampling_alpha is for SentencePiece models, but the tokenizers of this run "
            "are of another kind; set it to 0"
        )
    assert isinstance(tokenizer, SamplingTokenizer)
    return tokenizer


def _write_texts(folder: Path, corpus: Corpus, *, kept: Numbers) -> None:
    """Write the texts of the pairs at the given positions, in ascending order."""
    is_kept = np.zeros(kept[-1] + 1, dtype=np.bool_)
    is_kept[kept] = True
    pairs = itertools.compress(corpus, is_kept)
    with RowWriter(folder, "source") as sources, RowWriter(folder, "target") as targets:
        while chunk := list(itertools.islice(pairs, _BLOCK)):
            sources.write_lines(pair.source for pair in chunk)
            targets.write_lines(pair.target for pair in chunk)


class _StoppedError(Exception):
    """Sampling was stopped because the epoch is no longer needed."""


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
class _Sampler:
    """Draws the segmentations of epochs, each from its number and the seed alone."""

    sources: TextRows
    targets: TextRows
    indices: Numbers
    tokenizers: tuple[SamplingTokenizer, SamplingTokenizer]
    alpha: float
    nbest: int
    seed: int
    scratch: Path
    """Path beside which the files are written before they are mapped."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when no further epoch is needed."""

    def sample(self, number: int) -> EncodedCorpus:
        """Return the ids of an epoch, mapped from files that are already deleted."""
        with scratch_folder(self.scratch) as folder:
            source_rows, target_rows = (
                self._sample_side(folder, name, side=side, number=number)
                for side, name in enumerate(("source", "target"))
            )
        return EncodedCorpus(source_rows, target_rows, self.indices)

    def _sample_side(self, folder: Path, name: str, *, side: int, number: int) -> IdRows:
        texts = (self.sources, self.targets)[side]
        starts = range(0, len(texts), _BLOCK)
        generator = np.random.default_rng(derive_seed(self.seed, "segmentation", number, side))
        seeds = generator.integers(1 << 32, size=len(starts)).tolist()
        with RowWriter(folder, name) as writer:
            for start, seed in zip(starts, seeds, strict=True):
                if self.stop.is_set():
                    raise _StoppedError
                lines = texts.lines(start, min(start + _BLOCK, len(texts)))
                writer.write(
                    self.tokenizers[side].sample(
                        lines, seed=seed, alpha=self.alpha, nbest=self.nbest
                    )
                )
        return IdRows.open(folder, name)


class _Sampled(NamedTuple):
    """An epoch that is sampled already, or by a thread."""

    number: int
    rows: "Future[EncodedCorpus]"
    thread: threading.Thread


class SampledCorpus:
    """Training pairs whose segmentations are drawn anew for each epoch.

    The ids of an epoch depend only on the seed of the run and the number of the epoch. A thread
    draws the next epoch during the current one.
    """

    def __init__(self, sampler: _Sampler) -> None:
        self._sampler = sampler
        self._epochs: list[_Sampled] = []
        # The thread calls a C++ library, which must not run while the interpreter shuts down.
        weakref.finalize(self, _stop, sampler, self._epochs)

    def __len__(self) -> int:
        return len(self._sampler.indices)

    def epoch(self, number: int) -> EncodedCorpus:
        """Return the ids of an epoch; the latest one is kept."""
        if [each.number for each in self._epochs] != [number, number + 1]:
            found = [each for each in self._epochs if each.number == number]
            self._epochs[:] = found or [_start(self._sampler, number)]
            self._epochs[0].rows.result()
            self._epochs.append(_start(self._sampler, number + 1))
        return self._epochs[0].rows.result()


def _start(sampler: _Sampler, number: int) -> _Sampled:
    rows: Future[EncodedCorpus] = Future()

    def run() -> None:
        try:
            rows.set_result(sampler.sample(number))
        except BaseException as error:
            rows.set_exception(error)

    thread = threading.Thread(target=run, name=f"segmentation of epoch {number}", daemon=True)
    thread.start()
    return _Sampled(number, rows, thread)


def _stop(sampler: _Sampler, epochs: list[_Sampled]) -> None:
    sampler.stop.set()
    for each in epochs:
        each.thread.join()
