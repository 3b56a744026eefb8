"""The table of measures: a row says how a measure is computed, named and shown everywhere.

A new measure is a new row: a subclass of `Measure`. Validations, TensorBoard, results.json, the
tables of a study and, for a measure of text, `seq2seq-score` read the table.
"""

# S sentences, P parts, K statistics, N heads, T target length, S source length of weights

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq.evaluation.confidence import Outcomes, ranks
from seq2seq.evaluation.metrics import (
    DEFAULT_RULE,
    Array,
    ScoringRule,
    build_metrics,
    clip_score,
    corpus_bleu,
)
from seq2seq.files.links import GoldLinks, Links
from seq2seq.registry import Registry

MOST_NATS = 88.0
"""Largest loss whose perplexity a float32 can represent, and so a curve of TensorBoard."""
Statistics = dict[str, Array]
"""Statistics (S, P, K) of each known measure."""


@dataclass(kw_only=True, slots=True)
class Sentences:
    """Sentences to measure. An empty field is unknown."""

    references: Sequence[Sequence[str]] = ()
    """One or more texts, each with one line per sentence."""
    rule: ScoringRule = DEFAULT_RULE
    translations: Sequence[str] = ()
    losses: Sequence[tuple[float, int, int]] = ()
    """The loss of each reference in nats, and its numbers of tokens, EOS included, and of unknown
    tokens."""
    certainty: Sequence[tuple[float, int]] = ()
    """The log-probability of each translation, and its number of tokens."""
    attention: Sequence[NDArray[np.float32]] = ()
    """Weights (N, T, S) for each reference with teacher forcing; T and S include EOS."""
    links: Sequence[tuple[GoldLinks, Sequence[Links]]] = ()
    """For each sentence, gold links, and the links of the mean of the heads and of each head."""
    taus: Mapping[str, Sequence[Array]] = field(default_factory=dict)
    """Correlations of attention, erasure and gradient for the words of each reference, by the name
    of the measure."""


def ratio(statistics: Array) -> Array:
    """Return the first statistic divided by the second; 0 / 0 gives 0."""
    return np.asarray(statistics[..., 0] / np.maximum(statistics[..., 1], np.nextafter(0, 1)))


MEASURES = Registry["Measure"]("measure")
"""All measures by name, in the order of tables."""


class Measure(ABC):
    """A number computed from translations or attention.

    Tables show the docstring of each subclass as its explanation.
    """

    name: ClassVar[str] = ""
    """Key in results.json and in tables, and tag in TensorBoard."""
    title: ClassVar[str]
    form: ClassVar[str] = ".3f"
    """Format of the number."""
    better: ClassVar[str] = ""
    """`higher` or `lower`; empty if neither is better."""
    needs: ClassVar[str]
    """The field of `Sentences` that the measure needs."""
    has_heads: ClassVar[bool] = False
    """Whether the measure is also computed for each attention head."""
    is_slow: ClassVar[bool] = False
    """Whether the measure is computed only at the end of training."""
    is_detail: ClassVar[bool] = False
    """Whether the measure is shown only in detailed tables, not in a log."""
    is_per_token: ClassVar[bool] = False
    """Whether the measure changes its meaning if texts are split into different tokens."""

    def __init_subclass__(cls) -> None:
        if cls.name:
            MEASURES.register(cls, cls.name)(cls())

    @abstractmethod
    def rows(self, sentences: Sentences) -> ArrayLike:
        """Return the statistics (S, K) of each sentence, or (S, P, K).

        The first of the P parts is for the measure itself, the others for the attention heads.
        """

    def score(self, statistics: Array) -> Array:
        """Return the measure of statistics (..., K) that are summed over the sentences."""
        return ratio(statistics)


class OfSacrebleu(Measure):
    """A measure of translations that sacreBLEU computes."""

    form = ".2f"
    needs = "translations"

    def rows(self, sentences: Sentences) -> ArrayLike:
        metric = build_metrics(sentences.rule)[self.name]
        rows: list[list[float]] = metric._extract_corpus_statistics(
            sentences.translations, sentences.references
        )
        return rows

    def score(self, statistics: Array) -> Array:
        metric = build_metrics(DEFAULT_RULE)[self.name]  # only the statistics depend on the rule

        def score(row: Array) -> float:
            return clip_score(self.name, metric._compute_score_from_stats(row.tolist()).score)

        return np.asarray(np.apply_along_axis(score, -1, statistics))


class Bleu(OfSacrebleu):
    """from 0 to 100 (Papineni et al. 2002)"""

    name, title, better = "bleu", "BLEU", "higher"

    def score(self, statistics: Array) -> Array:
        return corpus_bleu(statistics)


class Chrf(OfSacrebleu):
    """agreement of characters, with twice the weight on recall, 0 to 100 (Popovic 2015)"""

    name, title, better = "chrf", "chrF", "higher"


class Ter(OfSacrebleu):
    """translation edit rate in percent, which may exceed 100 (Snover et al. 2006)"""

    name, title, better = "ter", "TER", "lower"
    is_slow = True


class Certainty(Measure):
    """mean log-probability of a token of the translations, in nats"""

    name, title, form, needs = "certainty", "Certainty", ".2f", "certainty"
    is_slow = is_detail = is_per_token = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        return sentences.certainty


class CertaintyCorrelation(Measure):
    """rank correlation of a translation's certainty and its chrF (Spearman 1904)"""

    name, title, form, better = "certainty_correlation", "Certainty and chrF", ".2f", "higher"
    needs = "certainty"
    is_slow = is_detail = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        found = outcomes(measure(sentences, ["certainty", "chrf"]))
        x, y = (ranks(each) - (len(each) - 1) / 2 for each in found)  # their sums are 0
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def score(self, statistics: Array) -> Array:
        """Return the correlation of the ranks in the whole corpus; 0 if all are equal."""
        number, x, y, xx, yy, xy = np.moveaxis(statistics, -1, 0)
        variances = (number * xx - x * x) * (number * yy - y * y)
        correlations = (number * xy - x * y) / np.sqrt(np.where(variances > 0, variances, np.inf))
        return np.asarray(np.clip(correlations, -1, 1))


class Loss(Measure):
    """nats per target token of the references, without label smoothing"""

    name, title, better, needs = "loss", "Loss", "lower", "losses"
    is_detail = is_per_token = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        return sentences.losses


class Perplexity(Loss):
    """perplexity of the references"""

    name, title, form = "perplexity", "Perplexity", ".2f"
    is_detail = False

    def score(self, statistics: Array) -> Array:
        return np.asarray(np.exp(np.minimum(ratio(statistics), MOST_NATS)))


class CharacterLoss(Measure):
    """nats per character of the references; unknown tokens and symbols lower it"""

    name, title, better, needs = "character_loss", "Loss per character", "lower", "losses"
    is_detail = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        texts = sentences.references[0]
        return [(loss, len(text)) for (loss, *_), text in zip(sentences.losses, texts, strict=True)]


class Aer(Measure):
    """alignment error rate of the attention against gold links (Och and Ney 2003)"""

    name, title, better, needs = "aer", "AER", "lower", "links"
    has_heads = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        return [[count_links(each, gold) for each in found] for gold, found in sentences.links]

    def score(self, statistics: Array) -> Array:
        predicted, sure, found, right = np.moveaxis(statistics, -1, 0)
        return ratio(np.stack([predicted + sure - found - right, predicted + sure], axis=-1))


class OfHeads(Measure):
    """A measure of attention weights: the mean of the heads, and each head."""

    needs = "attention"
    has_heads = is_detail = is_per_token = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        rows = []
        for weights in sentences.attention:
            sums, count = self.of_sentence(weights.astype(np.float64))
            rows.append([(each, count) for each in (sums.mean(), *sums)])
        return rows

    @abstractmethod
    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        """Return a sum for each head (N,) of weights (N, T, S), and the number of items in it."""


class Entropy(OfHeads):
    """entropy of the weights of a target token, in nats"""

    name, title, form = "entropy", "Entropy", ".2f"

    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        logarithms = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
        return -(weights * logarithms).sum(axis=(1, 2)), weights.shape[1]


class Coverage(OfHeads):
    """total weight that a source token receives, at most 1 (Wu et al. 2016, eq. 14)"""

    name, title = "coverage", "Coverage"

    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        received = weights.sum(axis=1)[:, :-1].clip(max=1)  # (N, S - 1)
        return received.sum(axis=1), weights.shape[2] - 1


class Sharpness(OfHeads):
    """largest weight of a target token"""

    name, title = "sharpness", "Sharpness"

    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        return weights.max(axis=2).sum(axis=1), weights.shape[1]


class End(OfHeads):
    """weight of the end-of-sentence token of the source"""

    name, title = "end", "Weight of EOS"

    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        return weights[..., -1].sum(axis=1), weights.shape[1]


class Backward(OfHeads):
    """share of the steps that look to the left of the previous step"""

    name, title = "backward", "Backward steps"

    def of_sentence(self, weights: Array) -> tuple[Array, int]:
        is_backward = np.diff(weights.argmax(axis=2), axis=1) < 0  # (N, T - 1)
        return is_backward.sum(axis=1, dtype=np.float64), weights.shape[1] - 1


class TauErasure(Measure):
    """Kendall's tau of attention and the effect of removing a word, the mean over target words"""

    name, title, form, needs = "tau_erasure", "Tau, erasure", ".2f", "taus"
    is_detail = True

    def rows(self, sentences: Sentences) -> ArrayLike:
        return [(np.nansum(each), np.isfinite(each).sum()) for each in sentences.taus[self.name]]


class TauGradient(TauErasure):
    """Kendall's tau of attention and gradient times input, the mean over target words"""

    name, title = "tau_gradient", "Tau, gradient"


class TauMethods(TauErasure):
    """Kendall's tau of removing a word and gradient times input, the mean over target words"""

    name, title = "tau_methods", "Tau, both methods"


OF_TEXT = [name for name, each in MEASURES.items() if each.needs == "translations"]
"""Names of the measures that need only translations and references."""


def measure(sentences: Sentences, names: Iterable[str] = MEASURES) -> Statistics:
    """Return the statistics of the named measures whose data are known."""
    rows = {
        name: np.array(MEASURES[name].rows(sentences), dtype=np.float64)
        for name in names
        if getattr(sentences, MEASURES[name].needs)
    }
    return {name: each.reshape(len(each), -1, each.shape[-1]) for name, each in rows.items()}


def outcomes(statistics: Statistics) -> Outcomes:
    """Return the certainty and the chrF of each translation, from their statistics."""
    names = ("certainty", "chrf")
    return Outcomes(*(MEASURES[name].score(statistics[name][:, 0]) for name in names))


def total_scores(statistics: Mapping[str, Array], *, part: int = 0) -> dict[str, float]:
    """Return the measures of all sentences together, without details that are always 0.

    Args:
        statistics: The result of `measure`.
        part: Index of the part to use; all measures must have it.
    """
    return {
        name: float(MEASURES[name].score(rows[:, part].sum(axis=0)))
        for name, rows in statistics.items()
        if rows[:, part].any() or not MEASURES[name].is_detail
    }


def head_scores(statistics: Mapping[str, Array]) -> list[dict[str, float]]:
    """Return the measures of each attention head; an empty list without heads."""
    of_heads = {name: rows for name, rows in statistics.items() if MEASURES[name].has_heads}
    num_parts = min((rows.shape[1] for rows in of_heads.values()), default=1)
    return [total_scores(of_heads, part=part) for part in range(1, num_parts)]


def score_texts(
    translations: Sequence[str], *references: Sequence[str], rule: ScoringRule = DEFAULT_RULE
) -> dict[str, float]:
    """Score translations by every measure of text.

    Example:
        >>> found = score_texts(["A dog runs fast."], ["A dog runs very fast."])
        >>> round(found["bleu"], 1), round(found["ter"], 1)
        (40.9, 20.0)
    """
    sentences = Sentences(translations=translations, references=references, rule=rule)
    return total_scores(measure(sentences))


def count_links(links: Links, gold: GoldLinks) -> tuple[int, int, int, int]:
    """Count predicted and sure links, and how many of them agree.

    Returns:
        The numbers of predicted links, of sure gold links, of sure gold links that are predicted,
        and of predicted links that are possible; sure links always count as possible, too.
    """
    right = links & (gold.possible | gold.sure)
    return len(links), len(gold.sure), len(links & gold.sure), len(right)


def alignment_error_rate(
    predicted: Iterable[Links], gold: Iterable[GoldLinks] | Iterable[Links]
) -> float:
    """Return the alignment error rate over the sentences of a corpus; 0 is perfect.

    Args:
        predicted: Links of each sentence.
        gold: Gold links of each sentence, or the links of another model, which all count as sure.

    Raises:
        ValueError: The numbers of sentences differ, or neither side has a link.

    Example:
        >>> from seq2seq.files.links import parse_links
        >>> gold = parse_links("0-0 1-1 2p1", where="example")
        >>> alignment_error_rate([frozenset({(0, 0), (2, 1)})], [gold])
        0.25
    """
    sides = [each if isinstance(each, GoldLinks) else GoldLinks(each, each) for each in gold]
    links = [(each, [found]) for found, each in zip(predicted, sides, strict=True)]
    statistics = measure(Sentences(links=links))
    if not any(rows.any() for rows in statistics.values()):
        raise ValueError("neither side has a link, so there is no alignment error rate; give links")
    return total_scores(statistics)["aer"]


def in_words(scores: Mapping[str, object]) -> str:
    """Write the most important measures on one line.

    Example:
        >>> in_words({"bleu": 12.345, "loss": 1.5, "aer": 0.25, "update": 3})
        'BLEU 12.35, AER 0.250'
    """
    return ", ".join(
        f"{each.title} {scores[name]:{each.form}}"
        for name, each in MEASURES.items()
        if name in scores and not each.is_detail
    )
