"""Translate a window of lines: ids to the model in batches, what it makes of them to text."""

# B batch, S the longest row's length, EOS included

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from seq2seq.data.tokenizers.base import TokenizerPair
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.forced_decoding import Forced, force
from seq2seq.inference.lexical_constraints import Prefixes
from seq2seq.inference.streaming import answer_in_order
from seq2seq.inference.translation import (
    Translation,
    encode_lines,
    forced_translation,
    found_translation,
    nothing,
)
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.workers import map_in_threads
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.special_tokens import EOS, PAD

Pairs = Sequence[tuple[str, str]]


class BatchTranslator:
    """Answers each pair of a window in order; one without text is not given to the model."""

    def __init__(
        self, model: Seq2Seq | Ensemble, *, tokenizers: TokenizerPair, numerics: Numerics
    ) -> None:
        self._model = model
        self._tokenizers = tokenizers
        self._numerics = numerics
        # CUDA has one stream that all threads would wait for.
        self._each = map_in_threads if numerics.device.type == "cpu" else map

    def complete(
        self,
        pairs: Pairs,
        decoding: DecodingConfig,
        *,
        prefixes: Prefixes,
        forbidden: Sequence[Sequence[int]],
        batch_size: int,
        observe: Callable[[Translation], None],
    ) -> Iterator[Translation]:
        """Search for the translation of each line that begins as the other text of its pair.

        Args:
            pairs: a line, and what its translation begins with.
            decoding: the search to use.
            prefixes: what turns beginnings into tokens.
            forbidden: tokens that no translation holds.
            batch_size: sentences translated at once.
            observe: takes each translation as soon as there is one, in any order.
        """
        sources = encode_lines([line for line, _ in pairs], self._tokenizers.source)
        beginnings = prefixes.encode([beginning for _, beginning in pairs], sources)

        def translation(row: int, hypotheses: list[Hypothesis]) -> Translation:
            return found_translation(sources[row], hypotheses, tokenizers=self._tokenizers)

        def answer(rows: list[int]) -> list[Translation]:
            source_ids, source_mask = self._pad([sources[row].ids for row in rows])
            with self._numerics.autocast():
                found = search(
                    self._model,
                    source_ids,
                    source_mask,
                    decoding,
                    prefixes=[beginnings[row] for row in rows],
                    banned=forbidden,
                )
            return list(map(translation, rows, found))

        empty = [row for row, source in enumerate(sources) if not source.ids]
        return answer_in_order(
            answer,
            lengths=[len(source.ids) for source in sources],
            known={row: translation(row, [self._nothing()]) for row in empty},
            batch_size=batch_size,
            observe=observe,
            each=self._each,
        )

    def force(
        self, pairs: Pairs, *, batch_size: int, observe: Callable[[Translation], None]
    ) -> Iterator[Translation]:
        """Read the second text of each pair as the translation of the first."""
        sources = encode_lines([source for source, _ in pairs], self._tokenizers.source)
        references = encode_lines([reference for _, reference in pairs], self._tokenizers.target)
        lengths = [max(len(s.ids), len(r.ids)) for s, r in zip(sources, references, strict=True)]

        def translation(row: int, forced: Forced) -> Translation:
            return forced_translation(
                sources[row], references[row], forced, tokenizers=self._tokenizers
            )

        def answer(rows: list[int]) -> list[Translation]:
            source_ids, source_mask = self._pad([sources[row].ids for row in rows])
            target_ids, target_mask = self._pad([references[row].ids for row in rows])
            with self._numerics.autocast():
                forced = force(
                    self._model,
                    source_ids,
                    source_mask,
                    target_ids=target_ids,
                    target_mask=target_mask,
                )
            return list(map(translation, rows, forced))

        certain = Forced(0.0, self._nothing().attention_weights, [0.0])
        empty = [row for row, length in enumerate(lengths) if length == 0]
        return answer_in_order(
            answer,
            lengths=lengths,
            known={row: translation(row, certain) for row in empty},
            batch_size=batch_size,
            observe=observe,
            each=self._each,
        )

    def _nothing(self) -> Hypothesis:
        return nothing(self._model.attention.num_heads)

    def _pad(self, id_rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return ids with EOS (B, S) and their mask (B, S), on the model's device."""
        lengths = torch.tensor([len(ids) + 1 for ids in id_rows])
        longest = int(lengths.max())
        ids = torch.tensor([[*ids, EOS] + [PAD] * (longest - len(ids) - 1) for ids in id_rows])
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        return ids.to(self._numerics.device), mask.to(self._numerics.device)
