"""How good a translation is likely to be: the chrF expected from its log-probability.

The mean log-probability of a translation's tokens says how certain the model was. A line, fitted on
the validation set, turns the square root of the mean probability into an expected chrF. Rikters and
Fishel (2017, "Confidence through Attention") compare it with features of the attention. This module
loads without torch.
"""

# S sentences

import heapq
import logging
import math
from typing import NamedTuple

import numpy as np

from seq2seq.evaluation.metrics import Array

logger = logging.getLogger(__name__)

LEAST_PAIRS = 200
"""Fewest validation pairs that a line is fitted on."""
LEAST_CORRELATION = 0.3
"""Lowest rank correlation with which an expected chrF is worth reading."""
_MOST_LINES = 5
"""Number of lines to read first."""


class Confidence(NamedTuple):
    """A line from the square root of the tokens' geometric mean probability to the chrF."""

    slope: float
    intercept: float
    """chrF at probability 0, which may be negative."""
    spread: float
    """Standard deviation of the chrF of a sentence around the line, on the validation set."""
    mean: float
    """Mean expected chrF of the validation set."""
    first_fifth: float
    """Mean expected chrF of the fifth of the validation set with the lowest values."""

    def expected_chrf(self, mean_log_probability: float) -> float:
        """Return the chrF to expect of a translation, from 0 to 100."""
        value = self.intercept + self.slope * math.exp(mean_log_probability / 2)
        return min(max(value, 0.0), 100.0)


class Outcomes(NamedTuple):
    """How certain a model was of its translations, and how good they are."""

    certainty: Array
    """Mean log-probability per token (S,)."""
    chrf: Array
    """chrF against the reference (S,)."""


def fit_confidence(valid: Outcomes) -> Confidence:
    """Fit the line to the sentences of a validation set by least squares.

    Args:
        valid: At least five translations, with different certainties.
    """
    roots = np.exp(valid.certainty / 2)
    slope, intercept = map(float, np.polyfit(roots, valid.chrf, deg=1))
    spread = float((valid.chrf - intercept - slope * roots).std())
    line = Confidence(slope, intercept, spread, 0, 0)
    expected = sorted(map(line.expected_chrf, valid.certainty))
    return line._replace(
        mean=float(np.mean(expected)), first_fifth=float(np.mean(expected[: len(expected) // 5]))
    )


def choose_confidence(valid: Outcomes, test: Outcomes | None) -> tuple[Confidence | None, str]:
    """Fit the line, and say how much it tells.

    The line keeps the order of the translations, so the numbers about this order do not depend on
    the sentences that it was fitted on. Without a test set, the validation set gives them.

    Returns:
        The line, or None if it tells too little, and a sentence for the log.
    """
    if (number := len(valid.chrf)) < LEAST_PAIRS:
        return None, f"no expected chrF: {number} validation pairs are fewer than {LEAST_PAIRS}"
    sets = {"validation": valid} | ({} if test is None else {"test": test})
    for name, judged in sets.items():
        correlation = rank_correlation(*judged)
        if correlation < LEAST_CORRELATION:
            return None, (
                f"no expected chrF: its rank correlation on the {name} set, {correlation:.2f}, is "
                f"below {LEAST_CORRELATION}"
            )
    return fit_confidence(valid), (
        f"expected chrF: rank correlation {correlation:.2f} on the {name} set; the 20% with the "
        f"lowest values contain {worst_found(judged):.0%} of the worst tenth"
    )


class ExpectedQuality:
    """Sums up the expected chrF of a stream of lines, and finds the lines to read first.

    Args:
        line: The line that the values come from; None if there are no values.
    """

    def __init__(self, line: Confidence | None) -> None:
        self._line = line
        self._total, self._number = 0.0, 0
        self._lowest: list[tuple[float, int, str]] = []

    def add(self, expected: float | None, name: str) -> None:
        """Add the expected chrF of the next line of the stream, with a name for the line."""
        if expected is not None:
            self._total, self._number = self._total + expected, self._number + 1
            lowest = (*self._lowest, (expected, self._number, name))
            self._lowest = heapq.nsmallest(_MOST_LINES, lowest)

    def report(self) -> None:
        """Log the mean, compared with the training text's kind, and the lines to read first."""
        if self._line is None or not self._number:
            return
        mean = self._total / self._number
        parts = [f"expected chrF {mean:.0f}; text of the training's kind has {self._line.mean:.0f}"]
        if mean < self._line.first_fifth:
            parts.append("this text is unlike the training text")
        if self._number > 1:
            parts.append(f"read first: lines {', '.join(name for *_, name in self._lowest)}")
        logger.info("%s", "; ".join(parts))


def ranks(values: Array) -> Array:
    """Return the rank of each value, from 0; equal values share the mean of their ranks.

    Example:
        >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
        [1.5, 0.0, 1.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: Array = (np.cumsum(counts) - (counts + 1) / 2)[inverse]
    return means


def rank_correlation(one: Array, other: Array) -> float:
    """Return Spearman's rank correlation of two rows (S,); 0 if all values of a row are equal.

    Example:
        >>> round(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0])), 6)
        1.0
    """
    sides = ranks(one), ranks(other)
    return float(np.corrcoef(*sides)[0, 1]) if all(map(np.ptp, sides)) else 0.0


def worst_found(outcomes: Outcomes) -> float:
    """Return the share of the worst tenth that is in the fifth with the least certainty."""
    number = len(outcomes.chrf)
    lowest = np.argsort(outcomes.certainty, kind="stable")[: number // 5]
    worst = np.argsort(outcomes.chrf, kind="stable")[: max(number // 10, 1)]
    return len(np.intersect1d(lowest, worst)) / len(worst)
