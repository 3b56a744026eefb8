"""Scores of parts of a test set: by the length of the source and by the frequency of words."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq.evaluation.significance import Array, corpus_bleu

SplitWords = Callable[[str], list[str]]
FREQUENCY_BINS = ((0, 0), (1, 9), (10, 99), (100, 999), (1000, None))
"""Smallest and largest number of occurrences in the training data; None: no limit."""


class Bin(NamedTuple):
    """Values of one range, both ends included."""

    low: int
    high: int | None
    """None: no limit."""

    @property
    def label(self) -> str:
        """Return the range as text, such as `5-8`."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def has(self, value: int) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value and (self.high is None or value <= self.high)


def equal_bins(values: Sequence[int], *, num_bins: int) -> list[Bin]:
    """Return ranges that contain about equally many of the values.

    Args:
        values: At least one.
        num_bins: Number of ranges; there are fewer if many values are equal.

    Example:
        >>> [found.label for found in equal_bins([3, 4, 4, 5, 7, 9], num_bins=3)]
        ['3', '4-6', '7-9']
    """
    ordered = sorted(values)
    lows = sorted({ordered[len(ordered) * k // num_bins] for k in range(num_bins)})
    highs = [low - 1 for low in lows[1:]] + [ordered[-1]]
    return [Bin(low, high) for low, high in zip(lows, highs, strict=True)]


def bleu_by_bin(statistics: Array, values: Sequence[int], bins: Sequence[Bin]) -> list[float]:
    """Return BLEU of the sentences whose value is in each range.

    Args:
        statistics: (S, K), the `sentence_statistics` of a run.
        values: One for each sentence.
        bins: The ranges; each contains a sentence.
    """
    of_bins = [np.array([lengths.has(value) for value in values]) for lengths in bins]
    return [float(corpus_bleu(statistics[chosen].sum(axis=0))) for chosen in of_bins]


class WordScore(NamedTuple):
    """Words of one range of frequencies."""

    f1: float | None
    """Harmonic mean of precision and recall, 0 to 1; None if the references have no such word."""
    num_words: int
    """Number of such words in the references."""


def word_scores_by_frequency(
    hypotheses: Sequence[str],
    references: Sequence[str],
    training_counts: Counter[str],
    *,
    split: SplitWords,
    bins: Sequence[Bin],
) -> list[WordScore]:
    """Score words by their frequency in the training data (Neubig et al. 2019).

    A word of a translation is right if its reference has it too; each occurrence counts once.

    Args:
        hypotheses: Translations.
        references: A reference for each translation.
        training_counts: How often each word occurs in the target side of the training data.
        split: Splits a line into words.
        bins: Ranges of frequencies.

    Returns:
        A score for each range.

    Example:
        >>> [score] = word_scores_by_frequency(
        ...     ["a b b"], ["a b c c"], Counter("abc"), split=str.split, bins=[Bin(1, None)]
        ... )
        >>> round(score.f1, 3), score.num_words  # 2 right of 3 and of 4
        (0.571, 4)
    """
    matched, found, wanted = (Counter[str]() for _ in range(3))
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        of_hypothesis, of_reference = Counter(split(hypothesis)), Counter(split(reference))
        matched.update(of_hypothesis & of_reference)
        found.update(of_hypothesis)
        wanted.update(of_reference)
    scores = []
    for frequencies in bins:
        num_matched, num_found, num_wanted = (
            sum(n for word, n in counts.items() if frequencies.has(training_counts[word]))
            for counts in (matched, found, wanted)
        )
        f1 = 2 * num_matched / (num_found + num_wanted) if num_wanted else None
        scores.append(WordScore(f1, num_wanted))
    return scores
