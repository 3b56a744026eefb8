"""Translate sentences with a trained model, or score known translations."""

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.ruled import symbol_ids
from seq2seq.data.tokenizers.tags import required_tags
from seq2seq.evaluation.confidence import Confidence
from seq2seq.files.links import Links
from seq2seq.inference.checkpoint import load_checkpoints
from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.lines import Batch, LineTranslator, map_in_workers
from seq2seq.inference.scoring import attention_links, rank_by_utility, score_targets
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import (
    EncodedLine,
    LineHypothesis,
    TranslatedSentence,
    Translation,
)
from seq2seq.model.seq2seq import Seq2Seq, count_parameters
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import (
    Numerics,
    choose_numerics,
    copy_to_device,
    memory_errors_named,
)
from seq2seq.search.config import DEFAULT_SEARCH, DecodingConfig, Hypothesis, MbrConfig
from seq2seq.search.loop import check_probabilities
from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS, PAD
from seq2seq.text.layer import words_of
from seq2seq.text.sentences import Split

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Translator(LineTranslator):
    """Translates with a model and its tokenizers.

    On a CPU in fp32, neither the other sentences nor the batch size changes the text of a
    translation, unless the scores of two hypotheses differ only by rounding. The last digits of
    a score may differ.

    Args:
        model: A model, or several as an `Ensemble`. It is put into evaluation mode and moved
            to the device.
        tokenizers: Source and target tokenizer of the model.
        numerics: Device and precision; None means fp32 on a GPU if there is one, else on the CPU.
        decoding: Default configuration of the search; None means `DEFAULT_SEARCH`, as in
            translate.py.
        tags: The tags of the training text, if every source began with one; a warning counts lines
            without a tag.
        habits: Habits of the training text, which decide whether lines are split into sentences.
        confidence: What the model's certainty says about the quality of a translation, if known.

    Example:
        >>> from seq2seq import build_model, load_config
        >>> from seq2seq.data.tokenizers.interface import TokenizerPair
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> model = build_model(load_config(), source_vocabulary_size=7, target_vocabulary_size=7)
        >>> tokenizers = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("xyz"))
        >>> [translation] = Translator(model, tokenizers=tokenizers)(["abc"])
        >>> translation.sentences[0].source_tokens
        ['a', 'b', 'c', '</s>']
    """

    tokenizers: TokenizerPair

    def __init__(
        self,
        model: Seq2Seq | Ensemble,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics | None = None,
        decoding: DecodingConfig | None = None,
        tags: Sequence[str] = (),
        habits: Mapping[str, float] | None = None,
        confidence: Confidence | None = None,
    ) -> None:
        super().__init__(
            tokenizers,
            decoding=decoding or DEFAULT_SEARCH,
            tags=tags,
            habits=habits or {},
            confidence=confidence,
            weights=torch.zeros(model.attention.num_heads, 1, 1),
        )
        numerics = numerics or choose_numerics(Device.auto, Precision.fp32)
        self._numerics = numerics
        self._model = model.to(numerics.device).eval()
        self._symbol_ids = symbol_ids(tokenizers.target)
        if numerics.device.type == "cpu":  # on CUDA all threads would wait for the same stream
            self._map = map_in_threads

    def __repr__(self) -> str:
        source, target = map(len, self.tokenizers)
        return (
            f"Translator({count_parameters(self._model):,} parameters, {source:,} source and "
            f"{target:,} target tokens, {self._numerics.device}, {self._numerics.precision.name}, "
            f"decoding={self.decoding.name})"
        )

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: Device | str = Device.auto,
        precision: Precision | str = Precision.fp32,
    ) -> "Translator":
        """Load a translator from a checkpoint, or an ensemble from several.

        Args:
            path: A file, or a directory that contains best.pt. An ensemble averages the
                probabilities of its members.
            device: Device to run on.
            precision: Type of matrix products.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: A file is not a checkpoint, the members of an ensemble have different
                tokenizers, or the device or the precision is not available.
        """
        numerics = choose_numerics(Device(device), Precision(precision))
        checkpoints = load_checkpoints([path] if isinstance(path, str | Path) else path)
        model = join_models([checkpoint.build_model() for checkpoint in checkpoints])
        first = checkpoints[0]
        return cls(
            model,
            tokenizers=first.tokenizers,
            numerics=numerics,
            tags=required_tags(first.config.data),
            habits=first.habits,
            confidence=first.confidence if len(checkpoints) == 1 else None,
        )

    def _search(
        self, sources: Sequence[EncodedLine], decoding: DecodingConfig, way_out: str
    ) -> list[list[Hypothesis]]:
        with self._computing([len(source.ids) for source in sources], way_out):
            found = search(
                self._model,
                *self._pad(sources),
                decoding.candidates(),
                symbols=self._symbol_ids,
                num_symbols=[source.num_symbols for source in sources],
            )
        if isinstance(decoding, MbrConfig):
            return [rank_by_utility(each, self.tokenizers.target) for each in found]
        return found

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = 64,
        counts: StreamCounts | None = None,
    ) -> Iterator[Translation]:
        """Score each target by teacher forcing, and yield it as the only translation of its source.

        The score of such a translation is its log-probability; there is no length limit. A pair
        without text on one side is scored too; a pair without any text has probability 1.

        Args:
            pairs: Any number of pairs of a source and a target line.
            batch_size: Pairs scored together.
            counts: Counts what deserves a warning; None logs the warnings at the end.
        """
        known = counts or StreamCounts(self.tags, None)
        score_batch = partial(self.score_batch, way_out=f"lower batch_size={batch_size}")
        yield from self._map_batches(pairs, Split.never, score_batch, batch_size, known)
        if counts is None:
            known.report()

    def score_batch(self, batch: Batch, *, way_out: str) -> list[TranslatedSentence]:
        """Score the targets of encoded pairs together; see `search_batch`."""
        if not any(pair.length for pair in batch):
            return [self.known(source, target.text) for source, target in batch]
        with self._computing([pair.length for pair in batch], way_out):
            source_ids, source_mask = self._pad([pair.source for pair in batch])
            target_ids, target_mask = self._pad([pair.target for pair in batch])
            scored = score_targets(
                self._model,
                source_ids,
                source_mask,
                target_ids=target_ids,
                target_mask=target_mask,
            )
        check_probabilities(not any(math.isnan(target.score) for target in scored))
        return [
            self.known(source, target.text, hypothesis)
            for (source, target), hypothesis in zip(batch, scored, strict=True)
        ]

    @contextlib.contextmanager
    def _computing(self, lengths: Sequence[int], way_out: str) -> Iterator[None]:
        """Return a context with the model's precision; its memory errors state the batch size."""
        longest = max(lengths) + 1  # with EOS
        size = f"sentences of at most {longest} tokens, {len(lengths)} at a time"
        with memory_errors_named(size, way_out), self._numerics.autocast():
            yield

    def _pad(self, lines: Sequence[EncodedLine]) -> tuple[Tensor, Tensor]:
        return pad([line.ids for line in lines], self._numerics.device)

    def links(self, translation: Translation, hypothesis: LineHypothesis | None = None) -> Links:
        """Link each word of a hypothesis to the source word with the most attention.

        Args:
            translation: A translation by this translator.
            hypothesis: One of its hypotheses; None means the best.

        Returns:
            Pairs of a source word and a target word, both counted from 0 in the line.

        Raises:
            ValueError: The model has no attention heads.
        """
        chosen = hypothesis or translation.best
        links = [
            next(attention_links(*each, tokenizers=self.tokenizers))
            for each in zip(translation.sentences, chosen.sentences, strict=True)
        ]
        if len(links) == 1:
            return links[0]
        sources = self.text.source_words(
            translation.source, [each.source for each in translation.sentences]
        )
        targets = words_of(chosen.text, [each.text for each in chosen.sentences])
        return frozenset(
            (source_words[source], target_words[target])
            for found, source_words, target_words in zip(links, sources, targets, strict=True)
            for source, target in found
        )


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the ids of B lines with EOS, (B, S), and their mask, (B, S), on a device."""
    longest = max(map(len, rows))
    padded = [[*row, EOS, *[PAD] * (longest - len(row))] for row in rows]
    ids = torch.from_numpy(np.array(padded, dtype=np.int64))  # faster than from a list
    ids, mask = copy_to_device([ids, ids != PAD], device)
    return ids, mask


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[_Result]:
    """Apply a function to each item as `map` does, with several items at once in threads.

    The products of one step of a search are too small to be split over torch's threads: waiting
    for each other would take longer than computing. Here each thread computes whole items, which
    works because torch's kernels release the interpreter's lock. A single item is computed with
    all of torch's threads.

    Args:
        function: Function of one item; it must not change data that its calls share.
        items: Items to process, as many at once as torch has threads, up to eight. Results are
            kept until the caller takes them.

    Yields:
        The results, in the order of the items.
    """
    num_threads = torch.get_num_threads()
    try:
        yield from map_in_workers(
            function, items, num_threads=num_threads, start=torch.set_num_threads
        )
    finally:
        torch.set_num_threads(num_threads)  # threads made later start with this number
