"""Draw new segmentations of the training text for each epoch: sub-word regularisation.

Sources: unigram sampling by Kudo (2018), "Subword Regularization", and BPE-dropout by Provilkov et
al. (2020), both as SentencePiece computes them.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import compress, islice
from typing import TypeGuard, cast

import numpy as np

from seq2seq.data.batching import EncodedCorpus, IdRows
from seq2seq.data.config import SentencePieceConfig, TokenizerConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import SamplingTokenizer, TokenizerPair
from seq2seq.runtime.numerics import derive_seed

_BLOCK = 100
"""Number of lines that share a seed; another number would give other segmentations."""


def samples_segmentations(config: TokenizerConfig) -> TypeGuard[SentencePieceConfig]:
    """Return whether the configuration asks for new segmentations in each epoch."""
    return isinstance(config, SentencePieceConfig) and config.sampling_alpha > 0


class SampledCorpus:
    """Training pairs whose segmentations are drawn again for each epoch.

    The ids of an epoch depend only on the seed of the run and the number of the epoch. They are
    kept in memory. During an epoch, a thread reads the text again and draws the next epoch.
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
            tokenizers: The tokenizers that encoded them; SentencePiece's, perhaps with symbols.
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
                "restore it, and resume the run"
            )
        return EncodedCorpus(source_rows, target_rows, self._encoded.indices)

    def _rows(self, number: int, side: int) -> Iterator[list[int]]:
        """Yield the ids of one side of each pair."""
        pairs = compress(self._corpus, self._is_kept)
        texts = (pair.target if side else pair.source for pair in pairs)
        generator = np.random.default_rng(derive_seed(self._seed, "segmentation", number, side))
        seeds = generator.integers(1 << 32, size=-(-len(self) // _BLOCK))  # one seed for each block
        for seed in seeds.tolist():
            if self._closed:
                raise CancelledError
            yield from self._tokenizers[side].sample(
                list(islice(texts, _BLOCK)),
                seed=seed,
                alpha=self._config.sampling_alpha,
                nbest=self._config.sampling_nbest,
            )
