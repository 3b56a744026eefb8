"""Score a model on a corpus: loss of the references, translations and attention."""

# B batch, N heads, T target length, S source length

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data import Batch, TokenizerPair, batches_by_length, collate
from seq2seq.data.id_rows import Numbers
from seq2seq.evaluation.alignment import Links, alignment_error_rate, diagonal_links, word_links
from seq2seq.evaluation.attention_statistics import AttentionStatistics, HeadStatistics
from seq2seq.evaluation.metrics import Scores, score
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.device_memory import naming_batch
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks, gather_in_first, share_from_first
from seq2seq.runtime.numerics import Numerics
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.training.loss import perplexity, sequence_loss
from seq2seq.training.preparation import EvaluationSet
from seq2seq.training.updates import NonFiniteError


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
    """The first ones, as many as the evaluator keeps; none in other processes than the first."""
    translations: list[str]
    """Of all sources; none in other processes than the first."""

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)

    def __str__(self) -> str:
        """Return the scores in a few words, for a log."""
        scores = self.scores
        return f"perplexity {self.perplexity:.2f}, BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}"


@dataclass(kw_only=True, slots=True)
class Evaluator:
    """Scores models on one corpus with one search.

    Several processes divide the batches. The first one adds the scores up in the order of the
    batches, so that sums do not depend on the number of processes.
    """

    data: EvaluationSet
    tokenizers: TokenizerPair
    decoding: DecodingConfig
    batch_size: int
    numerics: Numerics
    ranks: Ranks = SINGLE_PROCESS
    num_samples: int = 0
    """Hypotheses to keep, with their attention weights."""

    def evaluate(self, model: Seq2Seq, *, ter: bool) -> Evaluation:
        """Score a model.

        Args:
            model: The model; its mode, training or evaluation, is restored.
            ter: Whether to compute TER, which takes long.

        Returns:
            The scores, in every process; the translations in the first one alone.
        """
        was_training = model.training
        model.eval()
        batches = batches_by_length(self.data.encoded, self.batch_size)
        own = batches[self.ranks.rank :: self.ranks.world_size]
        with torch.inference_mode():
            found = [self._score_or_name(model, rows) for rows in own]
        model.train(was_training)
        turns = zip_longest(*gather_in_first(found, self.ranks))
        scored = [each for turn in turns for each in turn if each is not None]
        evaluation = shared = None
        if self.ranks.is_first:
            evaluation = self._join(scored, num_heads=model.attention.num_heads, ter=ter)
            shared = replace(evaluation, hypotheses=[], translations=[])
        shared = share_from_first(shared, self.ranks)
        assert shared is not None
        return evaluation or shared

    def _score_or_name(self, model: Seq2Seq, rows: Numbers) -> "_BatchScores":
        """Score some rows; name them if they do not fit into the memory of a GPU."""
        source_lengths = self.data.encoded.source_lengths[rows]
        size = f"{len(rows)} sentences of at most {source_lengths.max() + 1} tokens at a time"
        key = f"training.validation.batch_size={self.batch_size}"
        with naming_batch(size, f"lower {key}"):
            return self._score(model, rows)

    def _score(self, model: Seq2Seq, rows: Numbers) -> "_BatchScores":
        """Score the references of some rows, teacher-forced, and translate the sources."""
        on_host = collate(self.data.encoded, rows)
        batch = on_host.to(self.numerics.device)
        with self.numerics.autocast():
            loss = sequence_loss(model, batch, label_smoothing=0.0)
            cross_entropy = loss.cross_entropy.item()
            if math.isnan(cross_entropy):
                raise NonFiniteError(
                    "the loss on the validation or test set is not a number (NaN); train again "
                    "with a lower training.optimizer.learning_rate or training.precision=fp32"
                )
            found = search(model, batch.source_ids, batch.source_mask, self.decoding)
        statistics = AttentionStatistics(model.attention.num_heads)
        statistics.add(
            loss.attention_weights, source_mask=batch.source_mask, target_mask=batch.target_mask
        )
        links = {}
        if self.data.gold is not None and model.attention.num_heads > 0:
            links = self._links(on_host, loss.attention_weights.float().cpu())
        best = {
            row: hypotheses[0]
            for row, hypotheses in zip(on_host.indices.tolist(), found, strict=True)
        }
        return _BatchScores(
            cross_entropy=cross_entropy,
            num_tokens=batch.num_target_tokens,
            statistics=statistics,
            links=links,
            # Copied, because a view would be sent with the weights of its whole batch.
            hypotheses={
                row: each._replace(attention_weights=each.attention_weights.clone())
                for row, each in best.items()
                if row < self.num_samples
            },
            translations={
                row: self.tokenizers.target.decode(each.ids) for row, each in best.items()
            },
        )

    def _join(self, batches: Sequence["_BatchScores"], *, num_heads: int, ter: bool) -> Evaluation:
        """Return the scores of the corpus from those of its batches, in order."""
        statistics = AttentionStatistics(num_heads)
        links: dict[int, list[Links]] = {}
        hypotheses: dict[int, Hypothesis] = {}
        translations: dict[int, str] = {}
        for batch in batches:
            statistics.merge(batch.statistics)
            links |= batch.links
            hypotheses |= batch.hypotheses
            translations |= batch.translations
        error_rates = self._error_rates(links) if links else []
        texts = [translations[row] for row in sorted(translations)]
        return Evaluation(
            scores=score(texts, self.data.references, ter=ter, rule=self.data.scoring_rule),
            loss=sum(each.cross_entropy for each in batches) / sum(b.num_tokens for b in batches),
            heads=statistics.heads(error_rates=error_rates[1:] or None),
            alignment=Alignment(error_rates[0], self._diagonal_error_rate()) if links else None,
            hypotheses=[hypotheses[row] for row in sorted(hypotheses)],
            translations=texts,
        )

    def _links(self, batch: Batch, weights: Tensor) -> dict[int, list[Links]]:
        """Link each target word of a batch to its most attended source word.

        Args:
            batch: The batch, on the CPU.
            weights: Attention weights on the CPU, (B, N, T, S).

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


class _BatchScores(NamedTuple):
    """Scores of a batch, by row of the corpus where they are of sentences."""

    cross_entropy: float
    num_tokens: int
    statistics: AttentionStatistics
    links: dict[int, list[Links]]
    hypotheses: dict[int, Hypothesis]
    translations: dict[int, str]
