"""Score a model on a corpus: loss of the references, translations and attention."""

# B batch, N heads, T target length, S source length

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data import Batch, TokenizerPair, batches_by_length, collate
from seq2seq.evaluation.alignment import (
    Links,
    alignment_error_rate,
    diagonal_links,
    word_links,
)
from seq2seq.evaluation.attention_statistics import AttentionStatistics, HeadStatistics
from seq2seq.evaluation.metrics import Scores, score
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Numerics
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.training.loss import perplexity, sequence_loss
from seq2seq.training.preparation import EvaluationSet


class Alignment(NamedTuple):
    """Alignment error rates on the references; lower is better."""

    error_rate: float
    """Of links from each target word to its most attended source word, heads averaged."""
    diagonal_error_rate: float
    """Of the diagonal, for comparison."""


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """The scores of a model on a corpus."""

    scores: Scores
    loss: float
    """Nats per target token, EOS included, without label smoothing."""
    heads: list[HeadStatistics]
    """Statistics of each attention head on the references."""
    alignment: Alignment | None
    """None without gold alignments or without heads."""
    hypotheses: list[Hypothesis]
    translations: list[str]

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


@dataclass(kw_only=True, slots=True)
class Evaluator:
    """Scores models on one corpus with one search."""

    data: EvaluationSet
    tokenizers: TokenizerPair
    decoding: DecodingConfig
    batch_size: int
    numerics: Numerics

    def evaluate(self, model: Seq2Seq, *, ter: bool) -> Evaluation:
        """Score a model.

        Args:
            model: The model; its mode, training or evaluation, is restored.
            ter: Whether to compute TER, which takes long.
        """
        was_training = model.training
        model.eval()
        with torch.inference_mode():
            references = self._score_references(model)
            hypotheses = self._translate(model)
        model.train(was_training)
        translations = [self.tokenizers.target.decode(each.ids) for each in hypotheses]
        return Evaluation(
            scores=score(
                translations,
                self.data.references,
                ter=ter,
                bleu_tokenize=self.data.bleu_tokenize,
            ),
            loss=references.loss,
            heads=references.heads,
            alignment=references.alignment,
            hypotheses=hypotheses,
            translations=translations,
        )

    def _score_references(self, model: Seq2Seq) -> "_ReferenceScores":
        """Score the references, teacher-forced."""
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
        loss_per_token = cross_entropy / num_tokens
        if not links:
            return _ReferenceScores(loss_per_token, statistics.heads(error_rates=None), None)
        error_rate, *head_error_rates = self._error_rates(links)
        return _ReferenceScores(
            loss_per_token,
            statistics.heads(error_rates=head_error_rates),
            Alignment(error_rate, self._diagonal_error_rate()),
        )

    def _translate(self, model: Seq2Seq) -> list[Hypothesis]:
        """Return the best hypothesis of each source, in the order of the corpus."""
        best: dict[int, Hypothesis] = {}
        for batch in self._batches():
            with self.numerics.autocast():
                found = search(model, batch.source_ids, batch.source_mask, self.decoding)
            rows = batch.indices.tolist()
            best |= {row: hypotheses[0] for row, hypotheses in zip(rows, found, strict=True)}
        return [best[row] for row in sorted(best)]

    def _batches(self) -> Iterator[Batch]:
        for rows in batches_by_length(self.data.encoded, self.batch_size):
            yield collate(self.data.encoded, rows).to(self.numerics.device)

    def _links(self, batch: Batch, weights: Tensor) -> dict[int, list[Links]]:
        """Link each target word of a batch to its most attended source word.

        Returns:
            For each sentence the links of the mean of the heads, then those of each head.
        """
        source, target = self.tokenizers
        links = {}
        for row, index in enumerate(batch.indices.tolist()):
            source_ids = batch.source_ids[row][batch.source_mask[row]].tolist()[:-1]
            target_ids = batch.target_ids[row][batch.target_mask[row]].tolist()[:-1]
            source_words = source.words(self.data.sources[index], source_ids)
            target_words = target.words(self.data.references[index], target_ids)
            target_tokens = target.tokens(target_ids)
            heads = weights[row, :, : len(target_ids) + 1, : len(source_ids) + 1]  # (N, T, S)
            links[index] = [
                word_links(each, source_words, target_words, target_tokens=target_tokens)
                for each in (heads, *heads.unsqueeze(1))
            ]
        return links

    def _error_rates(self, links: dict[int, list[Links]]) -> list[float]:
        """Return the error rate of the mean of the heads, then those of each head."""
        assert self.data.gold is not None
        predicted = zip(*(links[index] for index in sorted(links)), strict=True)
        return [alignment_error_rate(each, self.data.gold) for each in predicted]

    def _diagonal_error_rate(self) -> float:
        assert self.data.gold is not None
        texts = zip(self.data.sources, self.data.references, strict=True)
        diagonals = [diagonal_links(len(s.split()), len(t.split())) for s, t in texts]
        return alignment_error_rate(diagonals, self.data.gold)


class _ReferenceScores(NamedTuple):
    """Scores of the references, teacher-forced."""

    loss: float
    heads: list[HeadStatistics]
    alignment: Alignment | None
