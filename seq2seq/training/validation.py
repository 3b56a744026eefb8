"""Score a model on a corpus, and turn its scores into a value that ranks checkpoints."""

# T target length, S source length

import logging
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from seq2seq.checks import counted
from seq2seq.config.schema import Metric
from seq2seq.data.batching import Numbers, batches_by_length
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.evaluation.alignment import diagonal_links
from seq2seq.evaluation.measures import (
    MEASURES,
    Sentences,
    Statistics,
    alignment_error_rate,
    head_scores,
    in_words,
    measure,
    total_scores,
)
from seq2seq.evaluation.metrics import signature
from seq2seq.inference.scoring import read_sentences
from seq2seq.inference.translations import EncodedLine, EncodedPair, TranslatedSentence
from seq2seq.inference.translator import Translator
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.process import Interrupted, StopSignals
from seq2seq.search.config import DecodingConfig
from seq2seq.text.rules import split_words
from seq2seq.training.log import LINE_SECONDS, describe_seconds
from seq2seq.training.preparation import EvaluationSet

logger = logging.getLogger(__name__)

_LEAST_SCORES = {Metric.bleu: 1.0, Metric.chrf: 0.005}
"""Scores below these values do not show which model is better: BLEU counts chance matches, and chrF
prints as 0.00."""
DIAGONAL = "aer_of_diagonal"
"""Key of the alignment error rate of the diagonal, which needs no model."""


class Sample(NamedTuple):
    """A sentence of the corpus."""

    translation: TranslatedSentence
    reference: TranslatedSentence
    """The reference, scored as a known translation."""


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """The scores of a model on a corpus."""

    scores: dict[str, float]
    """Values of the known `MEASURES`, and `DIAGONAL` if there are gold links."""
    heads: list[dict[str, float]]
    """The measures of each attention head."""
    signature: str
    """sacreBLEU's signature of BLEU."""
    statistics: Statistics
    """The statistics of each sentence."""
    translations: list[str]
    samples: list[Sample]
    """The first `Evaluator.num_samples` sentences."""

    @property
    def maps(self) -> list[Tensor]:
        """Return the weights (T, S) on the first references, averaged over the heads."""
        kept = self.samples if self.heads else []
        return [sample.reference.best.attention_weights.mean(0) for sample in kept]

    def summary(self) -> dict[str, object]:
        """Return its entry in results.json."""
        return {**self.scores, "signature": self.signature, "heads": self.heads}

    def __str__(self) -> str:
        """Return the scores in a few words, for a log."""
        return in_words(self.scores)


@dataclass(kw_only=True, slots=True)
class Evaluator:
    """Scores models on one corpus with one search.

    Several processes share the batches. The first process adds up the statistics in the order of
    the corpus, so that sums do not depend on the number of processes.
    """

    data: EvaluationSet
    tokenizers: TokenizerPair
    decoding: DecodingConfig
    batch_size: int = 64
    numerics: Numerics
    ranks: Ranks = SINGLE_PROCESS
    num_samples: int = 0
    """Number of sentences to keep, with their attention weights."""
    signals: StopSignals = field(default_factory=StopSignals)
    """Stops an evaluation after a batch, if this context has received a signal."""

    def evaluate(self, model: Seq2Seq, *, slow: bool) -> Evaluation:
        """Score a model.

        Args:
            model: The model; its mode, training or evaluation, is restored.
            slow: Whether to compute the slow measures.

        Returns:
            The same evaluation in every process.

        Raises:
            Interrupted: A signal asked this or another process to stop.
        """
        was_training = model.training
        translator = Translator(
            model, tokenizers=self.tokenizers, numerics=self.numerics, decoding=self.decoding
        )
        batches = batches_by_length(self.data.encoded, self.batch_size)
        own = batches[self.ranks.rank :: self.ranks.world_size]
        gathered = self.ranks.gather_in_first(self._read_all(translator, own))
        model.train(was_training)
        joined = [batch for read in gathered for batch in read or ()]
        evaluation = self.ranks.compute_in_first(
            lambda: None if None in gathered else self._join(joined, slow=slow)
        )
        if evaluation is None:
            raise Interrupted(self.signals.received or signal.SIGTERM)
        return evaluation

    def _read_all(self, translator: Translator, batches: list[Numbers]) -> list["_Batch"] | None:
        """Read batches, and log how many; None: a signal asked to stop."""
        read: list[_Batch] = []
        started = shown = time.monotonic()
        for rows in batches:
            if self.signals.received:
                return None
            read.append(self._read(translator, rows))
            if time.monotonic() - shown >= LINE_SECONDS:
                shown = time.monotonic()
                logger.info(
                    "scored %.0f%% of %s in %s",
                    100 * len(read) / len(batches),
                    counted(len(self.data.sources), "sentence"),
                    describe_seconds(shown - started),
                )
        return read

    def _read(self, translator: Translator, rows: Numbers) -> "_Batch":
        """Read the references of some rows, teacher-forced, and translate the sources."""
        data, encoded = self.data, self.data.encoded
        way_out = "choose a smaller model"
        pairs = []
        for row in rows:
            source, reference = data.sources[row], data.references[row]
            model = self.tokenizers.source.rules.prepare(source)
            source_line = EncodedLine(source, encoded.source_rows[row].tolist(), model)
            target_line = EncodedLine(reference, encoded.target_rows[row].tolist(), model)
            pairs.append(EncodedPair(source_line, target_line))
        read = translator.score_batch(pairs, way_out=way_out)
        sources = [pair.source for pair in pairs]
        found = translator.search_batch(sources, decoding=self.decoding, way_out=way_out)
        gold = None if data.gold is None else [data.gold[row] for row in rows]
        return _Batch(
            rows,
            measure(read_sentences(read, tokenizers=self.tokenizers, gold=gold)),
            [each.text for each in found],
            [(each.best.log_probability, len(each.best.tokens)) for each in found],
            {
                row: Sample(_copied(translation), _copied(reference))
                for row, translation, reference in zip(rows.tolist(), found, read, strict=True)
                if row < self.num_samples
            },
        )

    def _join(self, batches: Sequence["_Batch"], *, slow: bool) -> Evaluation:
        """Combine the batches into the scores of the corpus, in its order."""
        data = self.data
        order = np.concatenate([batch.rows for batch in batches]).argsort()
        texts = [text for batch in batches for text in batch.translations]
        translations = [texts[place] for place in order]
        certainty = [each for batch in batches for each in batch.certainty]
        names = [name for name, each in MEASURES.items() if slow or not each.is_slow]
        of_text = Sentences(
            translations=translations,
            references=[data.references],
            rule=data.scoring_rule,
            certainty=[certainty[place] for place in order],
        )
        statistics = measure(of_text, names) | {
            name: np.concatenate([batch.statistics[name] for batch in batches])[order]
            for name in batches[0].statistics
        }
        statistics = {name: statistics[name] for name in MEASURES if name in statistics}
        scores = total_scores(statistics)
        if "aer" in scores:
            scores[DIAGONAL] = _diagonal_error_rate(data)
        samples = {row: sample for batch in batches for row, sample in batch.samples.items()}
        return Evaluation(
            scores=scores,
            heads=head_scores(statistics),
            signature=str(signature(data.scoring_rule)),
            statistics=statistics,
            translations=translations,
            samples=[samples[row] for row in sorted(samples)],
        )


class _Batch(NamedTuple):
    """The results of a batch, in the order of its rows."""

    rows: Numbers
    statistics: Statistics
    translations: list[str]
    certainty: list[tuple[float, int]]
    """The log-probability of each translation, and its number of tokens."""
    samples: dict[int, Sample]
    """The samples to keep, by row."""


def _copied(translation: TranslatedSentence) -> TranslatedSentence:
    """Return a sentence with a copy of its weights; a view would be sent with its whole
    batch."""
    best = translation.best
    weights = best.attention_weights.clone()
    return translation._replace(hypotheses=[best._replace(attention_weights=weights)])


def _diagonal_error_rate(data: EvaluationSet) -> float:
    texts = zip(data.sources, data.references, strict=True)
    diagonals = [diagonal_links(len(split_words(s)), len(split_words(t))) for s, t in texts]
    return alignment_error_rate(diagonals, data.gold or ())


def metric_value(evaluation: Evaluation, metric: Metric) -> float:
    """Return a number that is higher for a better evaluation.

    The negative loss replaces a BLEU below 1 and a chrF of 0.00, which do not show which model is
    better. It ranks below every other score, because only the negative loss is below 0.
    """
    value, loss = evaluation.scores[metric.value], evaluation.scores["loss"]
    return value if metric in _LEAST_SCORES and value >= _LEAST_SCORES[metric] else -loss
