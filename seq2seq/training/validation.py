"""Score a model on a corpus, and turn its scores into a value that ranks checkpoints."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

from torch import Tensor

from seq2seq.checks import counted
from seq2seq.config.schema import Metric
from seq2seq.data.batching import Numbers, batches_by_length, collate
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.evaluation.alignment import (
    AttentionStatistics,
    HeadStatistics,
    alignment_error_rate,
    diagonal_links,
)
from seq2seq.evaluation.metrics import Scores, score
from seq2seq.files.links import Links
from seq2seq.inference.mbr import search_texts
from seq2seq.inference.results import EncodedLine, make_translation
from seq2seq.inference.translation import attention_links, score_targets
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks
from seq2seq.runtime.numerics import Numerics, memory_errors_named
from seq2seq.search.config import DecodingConfig, Hypothesis
from seq2seq.training.loss import perplexity
from seq2seq.training.preparation import EvaluationSet
from seq2seq.training.progress import Progress
from seq2seq.training.updates import NonFiniteError

logger = logging.getLogger(__name__)

_LEAST_SCORES = {Metric.bleu: 1.0, Metric.chrf: 0.005}
"""Lower scores do not show which model is better: such a BLEU counts chance matches, such a chrF
prints as 0.00."""


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
    attention: list[Tensor] = field(default_factory=list)
    """Weights (T, S) on the first references, the mean of the heads, as many as the evaluator keeps
    hypotheses; none without attention, and in other processes than the first."""

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)

    def __str__(self) -> str:
        """Return the scores in a few words, for a log."""
        scores = self.scores
        text = f"perplexity {self.perplexity:.2f}, BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}"
        return text if self.alignment is None else f"{text}, AER {self.alignment.error_rate:.3f}"


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
        found = [self._score(model, rows) for rows in own]
        model.train(was_training)
        turns = zip_longest(*self.ranks.gather_in_first(found))
        scored = [batch for turn in turns for batch in turn if batch is not None]
        evaluation = shared = None
        if self.ranks.is_first:
            evaluation = self._join(scored, num_heads=model.attention.num_heads, ter=ter)
            shared = replace(evaluation, hypotheses=[], translations=[], attention=[])
        shared = self.ranks.share_from_first(shared)
        assert shared is not None
        return evaluation or shared

    def _score(self, model: Seq2Seq, rows: Numbers) -> "_BatchScores":
        """Score the references of some rows, teacher-forced, and translate the sources."""
        batch = collate(self.data.encoded, rows).to(self.numerics.device)
        longest = counted(batch.source_ids.shape[1], "token")
        size = f"{counted(len(rows), 'sentence')} of at most {longest} at a time"
        key = f"training.validation.batch_size={self.batch_size}"
        with memory_errors_named(size, f"lower {key}"), self.numerics.autocast():
            known = score_targets(
                model,
                batch.source_ids,
                batch.source_mask,
                target_ids=batch.target_ids,
                target_mask=batch.target_mask,
            )
            cross_entropy = -sum(target.log_probability for target in known)
            if math.isnan(cross_entropy):
                raise NonFiniteError(
                    "the loss on the validation or test set is not a number (NaN); train again "
                    "with a lower training.optimizer.learning_rate or training.precision=fp32"
                )
            found = search_texts(
                model,
                batch.source_ids,
                batch.source_mask,
                self.decoding,
                tokenizer=self.tokenizers.target,
            )
        num_heads = model.attention.num_heads
        statistics = AttentionStatistics(num_heads)
        for target in known:
            statistics.add(target.attention_weights)
        references = dict(zip(rows.tolist(), known, strict=True))
        best = {
            row: found_of_row[0] for row, found_of_row in zip(rows.tolist(), found, strict=True)
        }
        has_links = self.data.gold is not None and num_heads > 0
        return _BatchScores(
            cross_entropy=cross_entropy,
            num_tokens=batch.num_target_tokens,
            statistics=statistics,
            links={row: self._links(row, known) for row, known in references.items() if has_links},
            # Copied, because a view would be sent with the weights of its whole batch.
            hypotheses={
                row: hypothesis._replace(attention_weights=hypothesis.attention_weights.clone())
                for row, hypothesis in best.items()
                if row < self.num_samples
            },
            attention={
                row: reference.attention_weights.mean(0)
                for row, reference in references.items()
                if row < self.num_samples and num_heads
            },
            translations={
                row: self.tokenizers.target.decode(hypothesis.ids)
                for row, hypothesis in best.items()
            },
        )

    def _join(self, batches: Sequence["_BatchScores"], *, num_heads: int, ter: bool) -> Evaluation:
        """Combine the scores of the batches, in their order, into the scores of the corpus."""
        statistics = AttentionStatistics(num_heads)
        links: dict[int, list[Links]] = {}
        hypotheses: dict[int, Hypothesis] = {}
        attention: dict[int, Tensor] = {}
        translations: dict[int, str] = {}
        for batch in batches:
            statistics.merge(batch.statistics)
            links |= batch.links
            hypotheses |= batch.hypotheses
            attention |= batch.attention
            translations |= batch.translations
        error_rates = self._error_rates(links) if links else []
        texts = [translations[row] for row in sorted(translations)]
        return Evaluation(
            scores=score(texts, self.data.references, ter=ter, rule=self.data.scoring_rule),
            loss=sum(b.cross_entropy for b in batches) / sum(b.num_tokens for b in batches),
            heads=statistics.heads(error_rates=error_rates[1:] or None),
            alignment=Alignment(error_rates[0], self._diagonal_error_rate()) if links else None,
            hypotheses=[hypotheses[row] for row in sorted(hypotheses)],
            translations=texts,
            attention=[attention[row] for row in sorted(attention)],
        )

    def _links(self, row: int, reference: Hypothesis) -> list[Links]:
        """Link the words of a reference by the mean of the heads, then by each head."""
        source_ids = self.data.encoded.source_rows[row].tolist()
        translation = make_translation(
            EncodedLine(self.data.sources[row], source_ids),
            [reference],
            tokenizers=self.tokenizers,
            texts=[self.data.references[row]],
        )
        return list(attention_links(translation, translation.best, tokenizers=self.tokenizers))

    def _error_rates(self, links: dict[int, list[Links]]) -> list[float]:
        """Return the error rate of the mean of the heads, then those of each head."""
        assert self.data.gold is not None
        predicted = zip(*(links[index] for index in sorted(links)), strict=True)
        return [alignment_error_rate(of_head, self.data.gold) for of_head in predicted]

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
    attention: dict[int, Tensor]
    translations: dict[int, str]


def metric_value(evaluation: Evaluation, metric: Metric) -> float:
    """Return a number that is higher for a better evaluation.

    The negative loss replaces a BLEU below 1 and a chrF of 0.00, which do not show which model is
    better. A loss is not negative, so every other score is better.
    """
    if metric is Metric.loss:
        return -evaluation.loss
    scores = evaluation.scores
    value = scores.bleu if metric is Metric.bleu else scores.chrf
    return value if value >= _LEAST_SCORES[metric] else -evaluation.loss


def count_zero_score(progress: Progress, value: float, metric: Metric) -> None:
    """Count a validation that the loss replaced, given its `metric_value`; warn of the second."""
    if metric is Metric.loss or value > 0:
        return
    progress.zero_scores += 1
    if progress.zero_scores == 2:
        logger.warning(
            "validation %s is below %g, so the loss chooses the best checkpoint until it rises; "
            "for text without spaces, or a short training, set training.validation.metric=%s",
            metric.value,
            _LEAST_SCORES[metric],
            "chrf or loss" if metric is Metric.bleu else "loss",
        )
