"""From a checkpoint to translations: sentences in, sentences out, in their order."""

# B batch, N heads, T target length, S source length

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.alignment import Links
from seq2seq.data.tokenizer import EOS, PAD, Tokenizer, TokenizerPair
from seq2seq.forced_decoding import Forced, force
from seq2seq.model import Seq2Seq
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.streaming import answer_in_order, windows
from seq2seq.training.checkpoint import load_checkpoint
from seq2seq.training.config import Device, Precision
from seq2seq.training.precision import Numerics, choose_numerics
from seq2seq.translation import (
    EncodedLine,
    TranslatedHypothesis,
    Translation,
    forced_translation,
    found_translation,
    word_links,
)

logger = logging.getLogger(__name__)


def _always() -> bool:
    return True


class Translator:
    """Translates with a model and its tokenizers."""

    def __init__(
        self,
        model: Seq2Seq,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics,
        decoding: DecodingConfig,
    ) -> None:
        self._model = model.to(numerics.device).eval()
        self._decoding = decoding
        self._tokenizers = tokenizers
        self._numerics = numerics

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: Device = Device.auto,
        precision: Precision = Precision.fp32,
    ) -> "Translator":
        """Read a checkpoint, which is all that is needed; a directory means its best.pt.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no checkpoint, or the device or precision is not to be had.
        """
        numerics = choose_numerics(device, precision)
        checkpoint = load_checkpoint(path)
        model = checkpoint.build_model()
        return cls(
            model,
            tokenizers=checkpoint.tokenizers,
            numerics=numerics,
            decoding=checkpoint.config.decoding,
        )

    @property
    def num_heads(self) -> int:
        """Return how many attention heads there are; without any there are no links."""
        return self._model.attention.num_heads

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
    ) -> Iterator[Translation]:
        """Translate lines as they come, each to one translation, in their order.

        A window of lines is read, sorted by length and translated in batches; what stands next
        in order is yielded after each batch. A line without text is not given to the model.

        Args:
            lines: of any number; no more than a window of them is held.
            decoding: the search to use; None takes the one that the model was scored with.
            batch_size: sentences translated at once.
            has_more: says whether another line can be had without waiting; where not, the
                window ends and is translated.
        """
        decoding = decoding or self._decoding
        num_lines = num_cut = 0
        for window in windows(lines, batch_size=batch_size, has_more=has_more):
            for translation in self._translate_window(window, decoding, batch_size=batch_size):
                num_lines += 1
                num_cut += not translation.hypotheses[0].finished
                yield translation
        if num_cut:
            logger.warning(
                "%d of %d translations reached the length limit before their end; raise "
                "decoding.max_length_ratio=%s or decoding.max_length_offset=%s to let them go on",
                num_cut,
                num_lines,
                decoding.max_length_ratio,
                decoding.max_length_offset,
            )

    def force(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
    ) -> Iterator[Translation]:
        """Read references as if they had been found: how probable they are, what is attended to.

        Each pair of a line and its reference gets a translation whose one hypothesis is the
        reference, whatever its length, in their order and as `translate` does with its lines. A
        pair without text on either side is not given to the model; text on one side only is read
        against an end of sentence alone.
        """
        num_pairs = num_halves = 0
        for window in windows(pairs, batch_size=batch_size, has_more=has_more):
            for translation in self._force_window(window, batch_size=batch_size):
                num_pairs += 1
                num_halves += bool(translation.source_ids) != bool(translation.hypotheses[0].ids)
                yield translation
        if num_halves:
            logger.warning(
                "%d of %d pairs have text on one side only, and so no links; check that the "
                "lines of input and reference belong together",
                num_halves,
                num_pairs,
            )

    def links(self, translation: Translation, hypothesis: TranslatedHypothesis) -> Links:
        """Link each word of a hypothesis to the source word that attention prefers.

        Raises:
            ValueError: the model has no attention heads.
        """
        return word_links(translation, hypothesis, tokenizers=self._tokenizers)

    def _translate_window(
        self, lines: list[str], decoding: DecodingConfig, *, batch_size: int
    ) -> Iterator[Translation]:
        sources = _encode(lines, self._tokenizers.source)

        def translation(row: int, hypotheses: list[Hypothesis]) -> Translation:
            return found_translation(sources[row], hypotheses, tokenizers=self._tokenizers)

        def answer(rows: list[int]) -> list[Translation]:
            found = self._search([sources[row].ids for row in rows], decoding)
            return list(map(translation, rows, found))

        return answer_in_order(
            answer,
            lengths=[len(source.ids) for source in sources],
            known={
                row: translation(row, [self._nothing()])
                for row, source in enumerate(sources)
                if not source.ids
            },
            batch_size=batch_size,
        )

    def _force_window(
        self, pairs: list[tuple[str, str]], *, batch_size: int
    ) -> Iterator[Translation]:
        sources = _encode([source for source, _ in pairs], self._tokenizers.source)
        references = _encode([reference for _, reference in pairs], self._tokenizers.target)
        lengths = [max(len(s.ids), len(r.ids)) for s, r in zip(sources, references, strict=True)]

        def translation(row: int, forced: Forced) -> Translation:
            return forced_translation(
                sources[row], references[row], forced, tokenizers=self._tokenizers
            )

        def answer(rows: list[int]) -> list[Translation]:
            forced = self._force(
                [sources[row].ids for row in rows], [references[row].ids for row in rows]
            )
            return list(map(translation, rows, forced))

        nothing = Forced(0.0, self._nothing().weights)
        return answer_in_order(
            answer,
            lengths=lengths,
            known={
                row: translation(row, nothing) for row, length in enumerate(lengths) if length == 0
            },
            batch_size=batch_size,
        )

    def _search(self, id_rows: list[list[int]], decoding: DecodingConfig) -> list[list[Hypothesis]]:
        source_ids, source_mask = self._pad(id_rows)
        with self._numerics.autocast():
            return search(self._model, source_ids, source_mask, decoding)

    def _force(self, source_rows: list[list[int]], target_rows: list[list[int]]) -> list[Forced]:
        source_ids, source_mask = self._pad(source_rows)
        target_ids, target_mask = self._pad(target_rows)
        with self._numerics.autocast():
            return force(
                self._model,
                source_ids,
                source_mask,
                target_ids=target_ids,
                target_mask=target_mask,
            )

    def _pad(self, id_rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return ids with EOS (B, S) and their mask (B, S), on the model's device."""
        lengths = torch.tensor([len(ids) + 1 for ids in id_rows])
        longest = int(lengths.max())
        ids = torch.tensor([[*ids, EOS] + [PAD] * (longest - len(ids) - 1) for ids in id_rows])
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        return ids.to(self._numerics.device), mask.to(self._numerics.device)

    def _nothing(self) -> Hypothesis:
        """Return the translation of nothing, which is certain to be nothing."""
        return Hypothesis(
            ids=[],
            score=0.0,
            log_probability=0.0,
            finished=True,
            weights=torch.zeros(self.num_heads, 1, 1),
        )


def _encode(lines: list[str], tokenizer: Tokenizer) -> list[EncodedLine]:
    id_rows = tokenizer.encode(lines)
    return [
        EncodedLine(line, ids if line.strip() else [])
        for line, ids in zip(lines, id_rows, strict=True)
    ]
