"""Alignments of attention: links between words, their error rate, and statistics of heads."""

# N heads, T target tokens, S source tokens

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.files.links import GoldLinks, Links


def word_links(
    attention_weights: Tensor,
    source_words: Sequence[int],
    target_words: Sequence[int],
    *,
    target_tokens: Sequence[str],
) -> Links:
    """Link each target word to the source word that it attends to most; see `word_weights`."""
    return argmax_links(
        word_weights(attention_weights, source_words, target_words, target_tokens=target_tokens)
    )


def word_weights(
    attention_weights: Tensor,
    source_words: Sequence[int],
    target_words: Sequence[int],
    *,
    target_tokens: Sequence[str],
) -> Tensor:
    """Convert attention weights between tokens to weights between words.

    Weights are averaged over heads, summed over the tokens of a source word and averaged over the
    tokens of a target word. Punctuation is left out of a target word that has other tokens: the
    full stop of "dog." attends elsewhere. The row and the column of EOS are dropped, so the
    weights of a target word sum to 1 minus the weight of EOS.

    Args:
        attention_weights: (N, T, S) of the tokens and EOS; a target that was cut at the length
            limit has no row of EOS.
        source_words: The index of the word of each source token, without EOS.
        target_words: The index of the word of each target token, without EOS.
        target_tokens: The label of each target token, without EOS.

    Returns:
        Weights (target words, source words); those of a word without tokens are 0.

    Raises:
        ValueError: There are no heads.

    Example:
        >>> attention_weights = torch.tensor([[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]])
        >>> word_weights(attention_weights, [0, 0], [0], target_tokens=["dog"])
        tensor([[0.7500]])
    """
    num_heads, num_rows, num_columns = attention_weights.shape
    if num_heads == 0:
        raise ValueError("attention without heads has no weights to align words by")
    assert num_rows - len(target_words) in (0, 1), "one row for each target token, and EOS"
    assert num_columns == len(source_words) + 1, "one column for each source token, and EOS"
    tokens = attention_weights.mean(dim=0)[: len(target_words), : len(source_words)]
    shares = _one_hot(target_words) * _counts(target_words, target_tokens)  # (target words, T)
    shares = shares / shares.sum(dim=1, keepdim=True).clamp(min=1)
    return shares @ tokens.float() @ _one_hot(source_words).T


def argmax_links(weights: Tensor) -> Links:
    """Link each target word to the source word of its highest weight, the first of equal ones.

    Args:
        weights: (target words, source words); a row of zeros gets no link.
    """
    if weights.numel() == 0:
        return frozenset()
    highest, sources = weights.max(dim=1)
    rows = zip(highest.tolist(), sources.tolist(), strict=True)
    return frozenset((source, target) for target, (high, source) in enumerate(rows) if high > 0)


def diagonal_links(num_source: int, num_target: int) -> Links:
    """Link words in their order, stretched to both lengths: a baseline for attention."""
    if num_source == 0:
        return frozenset()
    slope = (num_source - 1) / max(1, num_target - 1)
    return frozenset((round(target * slope), target) for target in range(num_target))


@dataclass(kw_only=True, slots=True)
class Agreement:
    """Agreement of links with gold links over a corpus (Och and Ney 2003, eq. 37)."""

    num_links: int = 0
    """Number of predicted links."""
    num_sure: int = 0
    """Number of sure gold links."""
    num_found_sure: int = 0
    """Number of sure gold links that were predicted."""
    num_right: int = 0
    """Number of predicted links that are possible gold links."""

    def add(self, links: Links, gold: GoldLinks) -> None:
        """Count the links of a sentence; sure links are always possible ones too."""
        self.num_links += len(links)
        self.num_sure += len(gold.sure)
        self.num_found_sure += len(links & gold.sure)
        self.num_right += len(links & (gold.possible | gold.sure))

    @property
    def precision(self) -> float:
        """Share of predicted links that are possible; NaN without predicted links."""
        return _ratio(self.num_right, self.num_links)

    @property
    def recall(self) -> float:
        """Share of sure links that were predicted; NaN without sure links."""
        return _ratio(self.num_found_sure, self.num_sure)

    @property
    def error_rate(self) -> float:
        """Alignment error rate, from 0 (perfect) to 1; NaN without any links."""
        return 1 - _ratio(self.num_found_sure + self.num_right, self.num_links + self.num_sure)


def alignment_error_rate(predicted: Iterable[Links], gold: Iterable[GoldLinks]) -> float:
    """Return the alignment error rate over the sentences of a corpus; 0 is perfect.

    Raises:
        ValueError: There are no links on either side, or the numbers of sentences differ.

    Example:
        >>> from seq2seq.files.links import parse_links
        >>> gold = parse_links("0-0 1-1 2p1", where="example")
        >>> alignment_error_rate([frozenset({(0, 0), (2, 1)})], [gold])
        0.25
    """
    agreement = Agreement()
    for links, gold_links in zip(predicted, gold, strict=True):
        agreement.add(links, gold_links)
    if agreement.num_links + agreement.num_sure == 0:
        raise ValueError("no links on either side; an alignment error rate needs some")
    return agreement.error_rate


class HeadStatistics(NamedTuple):
    """Statistics of one head, averaged over all tokens of a corpus."""

    entropy: float
    """Entropy of the weights of a target token, in nats; averaged over target tokens and EOS."""
    coverage: float
    """Weight that a source token gets from all target tokens of its sentence and EOS, at most 1
    (Wu et al. 2016, eq. 14); averaged over source tokens without EOS. 1 means that no token was
    left out; a target shorter than its source cannot reach it."""
    sharpness: float
    """Largest weight of a target token; averaged over target tokens and EOS."""
    alignment_error_rate: float | None
    """Alignment error rate of this head alone; None without gold alignments."""
    end: float = math.nan
    """Weight of EOS; averaged over target tokens and EOS."""
    backward: float = math.nan
    """Share of the steps whose largest weight is to the left of that of the step before."""


class AttentionStatistics:
    """Accumulates the statistics of each head sentence by sentence.

    Example:
        >>> statistics = AttentionStatistics(num_heads=1)
        >>> statistics.add(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))
        >>> [head] = statistics.heads(error_rates=None)
        >>> head.coverage, head.sharpness
        (1.0, 0.75)
    """

    def __init__(self, num_heads: int) -> None:
        self._sums = torch.zeros(len(STATISTICS), num_heads, dtype=torch.float64)
        self._counts = torch.zeros(len(STATISTICS), dtype=torch.float64)

    def add(self, attention_weights: Tensor) -> None:
        """Add the weights of a sentence, (N, T, S), on the CPU; T and S count EOS."""
        sums, counts = sentence_sums(attention_weights)
        self._sums += sums
        self._counts += counts

    def merge(self, other: "AttentionStatistics") -> None:
        """Add the sentences of other statistics."""
        self._sums += other._sums
        self._counts += other._counts

    def heads(self, *, error_rates: Sequence[float] | None) -> list[HeadStatistics]:
        """Return the statistics of each head; NaN if there were no tokens to average over.

        Args:
            error_rates: Alignment error rate of each head; None without gold alignments.
        """
        means = (self._sums / self._counts.unsqueeze(1)).T.tolist()
        rates = [None] * len(means) if error_rates is None else error_rates
        return [
            HeadStatistics(**dict(zip(STATISTICS, values, strict=True)), alignment_error_rate=rate)
            for values, rate in zip(means, rates, strict=True)
        ]


STATISTICS = ("entropy", "coverage", "sharpness", "end", "backward")


def sentence_sums(attention_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of each statistic of a sentence and of each head, and what they count.

    Args:
        attention_weights: (N, T, S); T and S count EOS.

    Returns:
        The sums, (5, N), and the number of tokens or steps of each, (5,), in the order of
        entropy, coverage, sharpness, end and backward.
    """
    weights = attention_weights.double()
    received = weights.sum(dim=1)[:, :-1].clamp(max=1)  # (N, S - 1)
    is_backward = weights.argmax(dim=2).diff(dim=1) < 0
    sums = (
        -torch.xlogy(weights, weights).sum(dim=(1, 2)),
        received.sum(dim=1),
        weights.amax(dim=2).sum(dim=1),
        weights[..., -1].sum(dim=1),
        is_backward.sum(dim=1),
    )
    _, num_target, num_source = weights.shape
    counts = [num_target, num_source - 1, num_target, num_target, num_target - 1]
    return torch.stack(sums), torch.tensor(counts)


def mean_over_heads(heads: Sequence[HeadStatistics]) -> dict[str, float]:
    """Return the mean of each statistic of the weights; an empty dict without heads.

    Error rates are left out, because the error rate of averaged heads is not their mean.
    """
    if not heads:
        return {}
    return {name: sum(getattr(head, name) for head in heads) / len(heads) for name in STATISTICS}


def _ratio(part: int, whole: int) -> float:
    """Return a share; NaN of nothing."""
    return part / whole if whole else math.nan


def _one_hot(words: Sequence[int]) -> Tensor:
    """Return 1 where a token belongs to a word, else 0: (words, tokens)."""
    owners = torch.tensor(words, dtype=torch.long)
    num_words = max(words, default=-1) + 1
    return (torch.arange(num_words).unsqueeze(1) == owners).float()


def _counts(words: Sequence[int], tokens: Sequence[str]) -> Tensor:
    """Return 1 for each token that counts for its word, 0 for its punctuation: (tokens,)."""
    has_letters = [not _is_punctuation(token) for token in tokens]
    with_letters = {word for word, letters in zip(words, has_letters, strict=True) if letters}
    counts = zip(words, has_letters, strict=True)
    return torch.tensor([float(letters or word not in with_letters) for word, letters in counts])


def _is_punctuation(token: str) -> bool:
    """Return whether a token has neither letter nor digit; U+2581, a space, is a symbol too."""
    return all(unicodedata.category(character)[0] in "PSZC" for character in token)
