"""Score a model on a corpus: loss with known targets, translations, attention against gold."""

# B batch, N heads, T target length, S source length

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data import Batch, TokenizerPair, collate, in_order
from seq2seq.evaluation.alignment import (
    Links,
    alignment_error_rate,
    argmax_links,
    diagonal_links,
    word_weights,
)
from seq2seq.evaluation.attention_statistics import AttentionStatistics, HeadStatistics
from seq2seq.evaluation.metrics import Scores, score
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Numerics
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.training.loss import sequence_loss
from seq2seq.training.preparation import EvaluationSet


class Alignment(NamedTuple):
    """How well attention agrees with gold alignments; lower is better."""

    error_rate: float
    """of each target word's most attended source word, heads averaged"""
    diagonal_error_rate: float
    """of the diagonal, for comparison"""


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """What was found out about a model."""

    scores: Scores
    loss: float
    """nats per target token, EOS included, without label smoothing"""
    heads: list[HeadStatistics]
    """how each head reads the sources while the references are known"""
    alignment: Alignment | None
    """None without gold alignments or heads"""
    hypotheses: list[Hypothesis]
    translations: list[str]

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))


@dataclass(kw_only=True, slots=True)
class Evaluator:
    """Scores models on one set with one search."""

    data: EvaluationSet
    tokenizers: TokenizerPair
    decoding: DecodingConfig
    batch_size: int
    numerics: Numerics

    def evaluate(self, model: Seq2Seq, *, ter: bool) -> Evaluation:
        """Score the model; TER, which takes long, only when asked for."""
        was_training = model.training
        model.eval()
        with torch.inference_mode():
            forced = self._force(model)
            hypotheses = self._translate(model)
        model.train(was_training)
        translations = [self.tokenizers.target.decode(each.ids) for each in hypotheses]
        return Evaluation(
            scores=score(translations, self.data.references, ter=ter),
            loss=forced.loss,
            heads=forced.heads,
            alignment=forced.alignment,
            hypotheses=hypotheses,
            translations=translations,
        )

    def _force(self, model: Seq2Seq) -> "_Forced":
        """Read the references with known targets."""
        cross_entropy, num_tokens = 0.0, 0
        statistics = AttentionStatistics(model.attention.num_heads)
        links: dict[int, list[Links]] = {}
        for batch in self._batches():
            with self.numerics.autocast():
                loss = sequence_loss(model, batch, label_smoothing=0.0)
            cross_entropy += loss.cross_entropy.item()
            num_tokens += int(batch.target_mask.sum())
            statistics.add(
                loss.attention_weights, source_mask=batch.source_mask, target_mask=batch.target_mask
            )
            if self.data.gold is not None and model.attention.num_heads > 0:
                links |= self._links(batch, loss.attention_weights.float().cpu())
        if not links:
            return _Forced(cross_entropy / num_tokens, statistics.heads(error_rates=None), None)
        error_rate, *of_heads = self._error_rates(links)
        return _Forced(
            cross_entropy / num_tokens,
            statistics.heads(error_rates=of_heads),
            Alignment(error_rate, self._diagonal_error_rate()),
        )

    def _translate(self, model: Seq2Seq) -> list[Hypothesis]:
        """Translate the sources; the best hypothesis of each, in the corpus' order."""
        best: dict[int, Hypothesis] = {}
        for batch in self._batches():
            with self.numerics.autocast():
                found = search(model, batch.source_ids, batch.source_mask, self.decoding)
            rows = batch.indices.tolist()
            best |= {row: hypotheses[0] for row, hypotheses in zip(rows, found, strict=True)}
        return [best[row] for row in sorted(best)]

    def _batches(self) -> Iterator[Batch]:
        for rows in in_order(self.data.encoded, self.batch_size):
            yield collate(self.data.encoded, rows).to(self.numerics.device)

    def _links(self, batch: Batch, weights: Tensor) -> dict[int, list[Links]]:
        """Align each target word of a batch with its most attended source word.

        Returns:
            For each sentence the links of the heads' mean, then those of each head.
        """
        source, target = self.tokenizers
        links = {}
        for row, index in enumerate(batch.indices.tolist()):
            source_ids = batch.source_ids[row][batch.source_mask[row]].tolist()[:-1]
            target_ids = batch.target_ids[row][batch.target_mask[row]].tolist()[:-1]
            source_words = source.words(self.data.sources[index], source_ids)
            target_words = target.words(self.data.references[index], target_ids)
            target_tokens = target.tokens(target_ids)
            heads = weights[row, :, None, : len(target_ids) + 1, : len(source_ids) + 1]
            by_head = torch.stack(
                [
                    word_weights(head, source_words, target_words, target_tokens=target_tokens)
                    for head in heads
                ]
            )  # (N, target words, source words)
            links[index] = [argmax_links(each) for each in (by_head.mean(dim=0), *by_head)]
        return links

    def _error_rates(self, links: dict[int, list[Links]]) -> list[float]:
        """Compare with the gold alignments: the heads' mean first, then each head."""
        assert self.data.gold is not None
        predicted = zip(*(links[index] for index in sorted(links)), strict=True)
        return [alignment_error_rate(each, self.data.gold) for each in predicted]

    def _diagonal_error_rate(self) -> float:
        assert self.data.gold is not None
        texts = zip(self.data.sources, self.data.references, strict=True)
        diagonals = [diagonal_links(len(s.split()), len(t.split())) for s, t in texts]
        return alignment_error_rate(diagonals, self.data.gold)


class _Forced(NamedTuple):
    """What reading known targets finds out."""

    loss: float
    heads: list[HeadStatistics]
    alignment: Alignment | None
