"""Translate sentences with a trained model, or score known translations."""

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2seq.checkpoints.checkpoint import load_checkpoints
from seq2seq.checks import counted
from seq2seq.data.batching import IdRows, pad
from seq2seq.data.tokenizers.interface import (
    TokenizerPair,
    leading_symbols,
    required_tags,
    symbol_ids,
)
from seq2seq.files.links import Links
from seq2seq.files.text import parallel
from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.lexical_constraints import BannedPhrases, encode_prefixes
from seq2seq.inference.mbr import rank_by_utility
from seq2seq.inference.quantization import quantize
from seq2seq.inference.results import (
    EncodedLine,
    TranslatedHypothesis,
    Translation,
    check_sentences,
    encode_lines,
    encode_targets,
    make_translation,
)
from seq2seq.inference.sentence_splitting import Sentence, SentenceSplitter, SplitLines
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translation import EncodedPair, attention_links, score_targets
from seq2seq.inference.windows import cut_batches, cut_windows, ignore, in_order
from seq2seq.model.seq2seq import Seq2Seq, count_parameters
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import (
    Numerics,
    choose_numerics,
    copy_to_device,
    map_in_threads,
    memory_errors_named,
)
from seq2seq.search.config import DEFAULT_SEARCH, DecodingConfig, Hypothesis, MbrConfig
from seq2seq.search.registry import search
from seq2seq.text.sentences import UNKNOWN_HABITS, Split, TextHabits

logger = logging.getLogger(__name__)


OnTranslation = Callable[[Translation], None]
_MapBatches = Callable[..., Iterator[list[Translation]]]


class Translator:
    """Translates with a model and its tokenizers.

    On a CPU in fp32 and int8, neither the other sentences nor the batch size changes the text of a
    translation, unless the scores of two hypotheses differ only by rounding. The last digits of
    a score may differ.

    Args:
        model: A model, or several as an `Ensemble`. It is put into evaluation mode, moved to the
            device and, for int8, quantized.
        tokenizers: Source and target tokenizer of the model.
        numerics: Device and precision; None means fp32 on a GPU if there is one, else on the CPU.
        decoding: Default configuration of the search; None means `DEFAULT_SEARCH`, as in
            translate.py.
        tags: If every source of the training text began with a tag, these tags; a warning counts
            lines without one.
        habits: Habits of the training text, which decide whether lines are split into sentences.

    Example:
        >>> from seq2seq import build_model, load_config
        >>> from seq2seq.data.tokenizers.interface import TokenizerPair
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> model = build_model(load_config(), source_vocabulary_size=7, target_vocabulary_size=7)
        >>> tokenizers = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("xyz"))
        >>> Translator(model, tokenizers=tokenizers)(["abc"])[0].source_tokens
        ['a', 'b', 'c', '</s>']
    """

    def __init__(
        self,
        model: Seq2Seq | Ensemble,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics | None = None,
        decoding: DecodingConfig | None = None,
        tags: Sequence[str] = (),
        habits: TextHabits = UNKNOWN_HABITS,
    ) -> None:
        numerics = numerics or choose_numerics(Device.auto, Precision.fp32)
        self.tokenizers = tokenizers
        self.decoding = decoding or DEFAULT_SEARCH
        self.tags = tags
        self._habits = habits
        self._num_parameters = count_parameters(model)  # int8 replaces parameters
        if numerics.precision is Precision.int8:
            quantize(model)
        self._numerics = numerics
        self._model = model.to(numerics.device).eval()
        self._symbol_ids = symbol_ids(tokenizers.target)
        # On CUDA all threads would wait for the same stream.
        self._map: _MapBatches = map_in_threads if numerics.device.type == "cpu" else map
        self._empty = Hypothesis([], 0.0, 0.0, True, torch.zeros(self.num_heads, 1, 1), [0.0])

    def __repr__(self) -> str:
        source, target = map(len, self.tokenizers)
        return (
            f"Translator({self._num_parameters:,} parameters, {source:,} source and "
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
            precision: Type of matrix products; int8 quantizes the model, on a CPU only.

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
        )

    @property
    def num_heads(self) -> int:
        """Return the number of attention heads of the model, or of all members together."""
        return self._model.attention.num_heads

    def __call__(
        self,
        sentences: Sequence[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        split: Split | str = Split.auto,
    ) -> list[Translation]:
        """Translate a list of sentences as `translate` does; raise TypeError for anything else."""
        lines = check_sentences(sentences)
        return list(self.translate(lines, decoding, batch_size=batch_size, split=split))

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        split: Split | str = Split.auto,
        prefixes: Iterable[str] | None = None,
        banned_phrases: Sequence[str] | BannedPhrases = (),
        on_translation: OnTranslation = ignore,
        counts: StreamCounts | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order.

        Lines of several sentences are split and their translations joined, unless the model was
        trained on such lines. Text without words stays as it is. Lines of whitespace get an empty
        translation.

        Args:
            lines: Any number of lines; 64 batches at a time are read and sorted by length.
            decoding: Configuration of the search; None means the translator's.
            batch_size: Sentences translated together.
            split: The lines to split into sentences.
            prefixes: The text that the translation of each line begins with, which must end at
                the end of a word; an empty prefix leaves the translation free.
            banned_phrases: Phrases that no translation may contain; see `BannedPhrases`.
            on_translation: Called with each translation as soon as it is known, in any order.
            counts: Counts of a longer stream that the lines are part of; with None, the warnings
                about these lines are logged at the end.

        Raises:
            ValueError: A prefix is too long, a phrase is empty, the numbers of lines and
                prefixes differ, or the model gives probabilities that are not numbers.
        """
        if isinstance(lines, str):
            raise TypeError(f"lines={lines!r} must be an iterable of lines; use translate([line])")
        free = ((line, "") for line in lines)
        names = ("lines", "prefixes")
        pairs = free if prefixes is None else parallel(lines, prefixes, names=names)
        decoding = decoding or self.decoding
        if not isinstance(decoding, DecodingConfig):
            raise TypeError(f"decoding={decoding!r} must be a configuration, such as BeamConfig()")
        banned = banned_phrases
        if not isinstance(banned, BannedPhrases):
            banned = BannedPhrases(banned, self.tokenizers.target)
        known = counts or StreamCounts(self.tags, decoding, banned)
        splitter = self.splitter(split)
        sentences = SplitLines(pairs, splitter, known.count)
        search_batch = partial(
            self.search_batch,
            decoding=decoding,
            banned_ids=banned.id_rows,
            way_out=f"lower batch_size={batch_size}",
        )

        def encode(window: list[Sentence]) -> list[EncodedPair]:
            texts = [sentence.text for sentence in window]
            sources = encode_lines(
                texts, self.tokenizers.source, splitter.stays, recases=splitter.recases
            )
            targets = encode_prefixes(
                [sentence.prefix for sentence in window],
                sources,
                tokenizer=self.tokenizers.target,
                decoding=decoding,
                count=known.count,
                indices=[sentence.line for sentence in window],
            )
            return list(map(EncodedPair, sources, targets))

        def translated() -> Iterator[Translation]:
            for window in cut_windows(sentences, batch_size):
                translations = self._map_batches(
                    search_batch, encode(window), batch_size, on_translation
                )
                for sentence, found in zip(window, translations, strict=True):
                    known.add(found, sentence.line)
                    yield found

        yield from sentences.join(translated())
        if counts is None:
            known.report()

    def search_batch(
        self,
        batch: Sequence[EncodedPair],
        *,
        decoding: DecodingConfig,
        banned_ids: Sequence[Sequence[int]] = (),
        way_out: str,
    ) -> list[Translation]:
        """Translate lines with their prefixes together; without any token, the model is not used.

        Args:
            batch: Encoded lines and prefixes.
            decoding: Configuration of the search.
            banned_ids: Token ids of the phrases that no translation may contain.
            way_out: Advice for the case that the batch does not fit into GPU memory.
        """
        if not any(pair.length for pair in batch):
            return [
                make_translation(
                    source, [self._empty], tokenizers=self.tokenizers, texts=[source.text.strip()]
                )
                for source, _ in batch
            ]
        with self._computing(batch, way_out):
            found = search(
                self._model,
                *self._pad([pair.source for pair in batch]),
                decoding.candidates(),
                prefixes=[pair.target.ids for pair in batch],
                banned=banned_ids,
                symbols=self._symbol_ids,
                num_symbols=[len(pair.source.spans) for pair in batch],
            )
        if isinstance(decoding, MbrConfig):
            found = [rank_by_utility(each, decoding, self.tokenizers.target) for each in found]
        make = partial(
            make_translation, tokenizers=self.tokenizers, n_best=getattr(decoding, "n_best", None)
        )
        return [
            make(pair.source, hypotheses) for pair, hypotheses in zip(batch, found, strict=True)
        ]

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = 64,
        on_translation: OnTranslation = ignore,
        counts: StreamCounts | None = None,
    ) -> Iterator[Translation]:
        """Yield each pair's target as the only translation of its source, teacher-forced.

        The score of such a translation is its log-probability; there is no length limit. A pair
        without text on one side is scored too, a pair without any text has probability 1.

        Args:
            pairs: Any number of pairs of a source and a target line.
            batch_size: Pairs scored together.
            on_translation: Called with each translation as soon as it is known, in any order.
            counts: As in `translate`.
        """
        known = counts or StreamCounts(self.tags, None)
        score_batch = partial(self.score_batch, way_out=f"lower batch_size={batch_size}")
        num_read = 0
        for window in cut_windows(pairs, batch_size):
            sources = encode_lines([source for source, _ in window], self.tokenizers.source)
            targets = encode_targets(
                [target for _, target in window], sources, self.tokenizers.target
            )
            encoded = list(map(EncodedPair, sources, targets))
            translations = self._map_batches(score_batch, encoded, batch_size, on_translation)
            for index, scored in enumerate(translations, start=num_read):
                known.add(scored, index)
                yield scored
            num_read += len(window)
        if counts is None:
            known.report()

    def score_batch(self, batch: Sequence[EncodedPair], *, way_out: str) -> list[Translation]:
        """Score the targets of encoded pairs together; see `search_batch`."""
        if not any(pair.length for pair in batch):
            return [self._scored(pair, self._empty) for pair in batch]
        with self._computing(batch, way_out):
            source_ids, source_mask = self._pad([pair.source for pair in batch])
            target_ids, target_mask = self._pad([pair.target for pair in batch])
            scored = score_targets(
                self._model,
                source_ids,
                source_mask,
                target_ids=target_ids,
                target_mask=target_mask,
            )
        if any(math.isnan(target.score) for target in scored):
            raise FloatingPointError(
                "the model's probabilities are not numbers (NaN); score with precision=fp32, "
                "or use an earlier checkpoint"
            )
        return list(map(self._scored, batch, scored))

    def _map_batches(
        self,
        function: Callable[[list[EncodedPair]], list[Translation]],
        pairs: list[EncodedPair],
        batch_size: int,
        on_translation: OnTranslation,
    ) -> Iterator[Translation]:
        """Map the pairs of a window to translations, in batches."""
        batches = cut_batches([pair.length for pair in pairs], batch_size)
        translations = self._map(function, [[pairs[row] for row in rows] for rows in batches])
        return in_order(batches, translations, on_translation)

    def _scored(self, pair: EncodedPair, target: Hypothesis) -> Translation:
        """Return the target of a pair as the only translation of its source."""
        return make_translation(
            pair.source, [target], tokenizers=self.tokenizers, texts=[pair.target.text]
        )

    @contextlib.contextmanager
    def _computing(self, batch: Sequence[EncodedPair], way_out: str) -> Iterator[None]:
        """Return a context of the model's precision that names a batch that does not fit."""
        longest = max(pair.length for pair in batch) + 1  # EOS
        size = f"{counted(len(batch), 'sentence')} of at most {counted(longest, 'token')} at a time"
        with memory_errors_named(size, way_out), self._numerics.autocast():
            yield

    def _pad(self, lines: list[EncodedLine]) -> tuple[Tensor, Tensor]:
        """Return ids with EOS, (B, S), and their mask, (B, S), on the model's device."""
        padded = pad(IdRows.of([line.ids for line in lines]), np.arange(len(lines)))
        ids, mask = copy_to_device(list(map(torch.from_numpy, padded)), self._numerics.device)
        return ids, mask

    def splitter(self, split: Split | str) -> SentenceSplitter:
        """Return what splits lines into the sentences that the model translates."""
        return SentenceSplitter(
            self._habits,
            split=Split(split),
            num_tokens=self.num_tokens,
            leading_symbols=partial(leading_symbols, self.tokenizers.source),
        )

    def num_tokens(self, line: str) -> int:
        """Return the number of tokens of a source line."""
        [encoded] = encode_lines([line], self.tokenizers.source)
        return len(encoded.ids)

    def links(
        self, translation: Translation, hypothesis: TranslatedHypothesis | None = None
    ) -> Links:
        """Link each word of a hypothesis to the source word with the most attention.

        Args:
            translation: A translation by this translator.
            hypothesis: One of its hypotheses; None means the best.

        Returns:
            Pairs of a source word and a target word, both counted from 0.

        Raises:
            ValueError: The model has no attention heads.
        """
        chosen = hypothesis or translation.best
        return next(attention_links(translation, chosen, tokenizers=self.tokenizers))
