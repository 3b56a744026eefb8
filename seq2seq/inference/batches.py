"""Translate or score one window of lines in batches."""

# B batch, S longest row of ids, EOS included

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from seq2seq.data.tokenizers.base import TokenizerPair
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.lexical_constraints import PrefixEncoder
from seq2seq.inference.streaming import map_batches
from seq2seq.inference.target_scoring import score_targets
from seq2seq.inference.translation import (
    EncodedLine,
    EncodedPair,
    Translation,
    empty_translation,
    encode_lines,
    found_translation,
    scored_translation,
)
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.device_memory import naming_batch
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.transfer import copy_to_device
from seq2seq.runtime.workers import map_in_threads
from seq2seq.search import DecodingConfig, search
from seq2seq.special_tokens import EOS, PAD

Window = Sequence[tuple[str, str]]
"""Pairs of a source line and a target text that are available together."""
OnTranslation = Callable[[Translation], None]


class BatchTranslator:
    """Translates or scores the pairs of a window; pairs without text bypass the model.

    Args:
        model: In evaluation mode, on the device of `numerics`.
        tokenizers: Source and target tokenizer of the model.
        numerics: Device and precision.
    """

    def __init__(
        self, model: Seq2Seq | Ensemble, *, tokenizers: TokenizerPair, numerics: Numerics
    ) -> None:
        self._model = model
        self._tokenizers = tokenizers
        self._numerics = numerics
        # On CUDA all threads would wait for the same stream.
        self._map_function = map_in_threads if numerics.device.type == "cpu" else map

    def translate(
        self,
        window: Window,
        decoding: DecodingConfig,
        *,
        prefixes: PrefixEncoder,
        banned: Sequence[Sequence[int]],
        batch_size: int,
        on_translation: OnTranslation,
    ) -> Iterator[Translation]:
        """Yield a translation of each source line that begins with its target text.

        Args:
            window: Source lines with their prefixes.
            decoding: Configuration of the search.
            prefixes: Encodes the prefixes.
            banned: Sequences of token ids that no translation contains.
            batch_size: Sentences translated together.
            on_translation: Called with each translation as soon as it is known.
        """

        def translate_batch(batch: list[EncodedPair]) -> list[Translation]:
            source_ids, source_mask = self._pad([pair.source for pair in batch])
            beginnings = [pair.target.ids for pair in batch]
            with self._numerics.autocast():
                found = search(
                    self._model,
                    source_ids,
                    source_mask,
                    decoding,
                    prefixes=beginnings,
                    banned=banned,
                )
            return [
                found_translation(pair.source, hypotheses, tokenizers=self._tokenizers)
                for pair, hypotheses in zip(batch, found, strict=True)
            ]

        sources = encode_lines([line for line, _ in window], self._tokenizers.source)
        targets = prefixes.encode([prefix for _, prefix in window], sources)
        return self._map_batches(
            translate_batch,
            list(map(EncodedPair, sources, targets)),
            lengths=[len(source.ids) for source in sources],
            batch_size=batch_size,
            on_translation=on_translation,
        )

    def score(
        self, window: Window, *, batch_size: int, on_translation: OnTranslation
    ) -> Iterator[Translation]:
        """Yield each target text, teacher-forced, as the translation of its source line."""
        sources = encode_lines([line for line, _ in window], self._tokenizers.source)
        targets = encode_lines([target for _, target in window], self._tokenizers.target)
        pairs = list(map(EncodedPair, sources, targets))
        return self._map_batches(
            self._score_batch,
            pairs,
            lengths=[max(len(source.ids), len(target.ids)) for source, target in pairs],
            batch_size=batch_size,
            on_translation=on_translation,
        )

    def _score_batch(self, batch: list[EncodedPair]) -> list[Translation]:
        source_ids, source_mask = self._pad([pair.source for pair in batch])
        target_ids, target_mask = self._pad([pair.target for pair in batch])
        with self._numerics.autocast():
            scored = score_targets(
                self._model,
                source_ids,
                source_mask,
                target_ids=target_ids,
                target_mask=target_mask,
            )
        return [
            scored_translation(pair, target, tokenizers=self._tokenizers)
            for pair, target in zip(batch, scored, strict=True)
        ]

    def _map_batches(
        self,
        function: Callable[[list[EncodedPair]], list[Translation]],
        pairs: list[EncodedPair],
        *,
        lengths: list[int],
        batch_size: int,
        on_translation: OnTranslation,
    ) -> Iterator[Translation]:
        num_heads = self._model.attention.num_heads

        def run(rows: Sequence[int]) -> list[Translation]:
            longest = max(lengths[row] for row in rows) + 1  # EOS
            size = f"{len(rows)} sentences of at most {longest} tokens at a time"
            with naming_batch(size, f"lower batch_size={batch_size}"):
                return function([pairs[row] for row in rows])

        return map_batches(
            run,
            lengths=lengths,
            batch_size=batch_size,
            known={
                row: empty_translation(pair, num_heads=num_heads, tokenizers=self._tokenizers)
                for row, pair in enumerate(pairs)
                if lengths[row] == 0
            },
            on_result=on_translation,
            map_function=self._map_function,
        )

    def _pad(self, lines: list[EncodedLine]) -> tuple[Tensor, Tensor]:
        """Return ids with EOS, (B, S), and their mask, (B, S), on the model's device."""
        lengths = torch.tensor([len(line.ids) + 1 for line in lines])
        longest = int(lengths.max())
        ids = torch.tensor(
            [[*line.ids, EOS] + [PAD] * (longest - len(line.ids) - 1) for line in lines]
        )
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        ids, mask = copy_to_device([ids, mask], self._numerics.device)
        return ids, mask
