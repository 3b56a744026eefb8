"""Score a model on a corpus: loss with known targets, translations, attention against gold."""

# B batch, N heads, T target length, S source length

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment import (
    Links,
    alignment_error_rate,
    argmax_links,
    diagonal_links,
    word_weights,
)
from seq2seq.data import Batch, TokenizerPair, collate, in_order
from seq2seq.evaluation import Scores, score
from seq2seq.model import Seq2Seq
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.training.loss import sequence_loss
from seq2seq.training.precision import Numerics
from seq2seq.training.preparation import EvaluationSet


class Alignment(NamedTuple):
    """How well attention agrees with gold alignments; lower is better."""

    error_rate: float
    """of each target word's most attended source word"""
    diagonal_error_rate: float
    """of the diagonal, for comparison"""


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """What was found out about a model."""

    scores: Scores
    loss: float
    """nats per target token, EOS included, without label smoothing"""
    entropies: list[float]
    """of each head's weights, nats, averaged over target tokens"""
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
            entropies=forced.entropies,
            alignment=forced.alignment,
            hypotheses=hypotheses,
            translations=translations,
        )

    def _force(self, model: Seq2Seq) -> "_Forced":
        """Read the references with known targets."""
        cross_entropy, num_tokens = 0.0, 0
        entropies = torch.zeros(model.attention.num_heads, dtype=torch.float64)
        links: dict[int, Links] = {}
        for batch in self._batches():
            with self.numerics.autocast():
                loss = sequence_loss(model, batch, label_smoothing=0.0)
            cross_entropy += loss.cross_entropy.item()
            num_tokens += int(batch.target_mask.sum())
            weights = loss.weights.float()
            by_token = -torch.xlogy(weights, weights).sum(-1)  # (B, N, T)
            entropies += (by_token * batch.target_mask.unsqueeze(1)).sum((0, 2)).double().cpu()
            if self.data.gold is not None and model.attention.num_heads > 0:
                links |= self._links(batch, weights.cpu())
        return _Forced(
            cross_entropy / num_tokens,
            (entropies / num_tokens).tolist(),
            self._alignment(links),
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

    def _links(self, batch: Batch, weights: Tensor) -> dict[int, Links]:
        """Align each target word of a batch with its most attended source word."""
        source, target = self.tokenizers
        links = {}
        for row, index in enumerate(batch.indices.tolist()):
            source_ids = batch.source_ids[row][batch.source_mask[row]].tolist()[:-1]
            target_ids = batch.target_ids[row][batch.target_mask[row]].tolist()[:-1]
            by_word = word_weights(
                weights[row, :, : len(target_ids) + 1, : len(source_ids) + 1],
                source.words(self.data.sources[index], source_ids),
                target.words(self.data.references[index], target_ids),
                target_pieces=target.pieces(target_ids),
            )
            links[index] = argmax_links(by_word)
        return links

    def _alignment(self, links: dict[int, Links]) -> Alignment | None:
        if not links or self.data.gold is None:
            return None
        texts = zip(self.data.sources, self.data.references, strict=True)
        diagonals = [diagonal_links(len(s.split()), len(t.split())) for s, t in texts]
        predicted = [links[index] for index in sorted(links)]
        return Alignment(
            alignment_error_rate(predicted, self.data.gold),
            alignment_error_rate(diagonals, self.data.gold),
        )


class _Forced(NamedTuple):
    """What reading known targets finds out."""

    loss: float
    entropies: list[float]
    alignment: Alignment | None
