"""Compare the attention of a word with other measures of what the word depends on."""

# T target words, S source words

from typing import NamedTuple

import numpy as np

from seq2seq.evaluation.metrics import Array

_DECIMALS = 5
"""Number of decimals; values that differ by less count as ties, because rounding may order them."""


class Attribution(NamedTuple):
    """How much each target word depends on each source word, by three methods.

    Erasure and gradient have a sign: above 0, the source word makes the target word more probable.
    Attention has no sign, so the correlations compare magnitudes (as in the program of Jain and
    Wallace 2019). The correlation of a target word is NaN if all values of one side are ties. A
    model without attention has only `tau_methods`.
    """

    source_words: list[str]
    target_words: list[str]
    attention: Array
    """Attention weights, averaged over the heads, (T, S); NaN if the model has no attention."""
    erasure: Array
    """Log-probability of the target word minus its log-probability without the source word, (T,
    S)."""
    gradient: Array
    """Gradient of the log-probability times the embedding of the source word, (T, S)."""

    @property
    def tau_erasure(self) -> Array:
        """Kendall's tau of attention and erasure for each target word, (T,)."""
        return _correlate(self.attention, self.erasure)

    @property
    def tau_gradient(self) -> Array:
        """Kendall's tau of attention and gradient for each target word, (T,)."""
        return _correlate(self.attention, self.gradient)

    @property
    def tau_methods(self) -> Array:
        """Kendall's tau of erasure and gradient for each target word, (T,)."""
        return _correlate(self.erasure, self.gradient)


def _correlate(one: Array, other: Array) -> Array:
    sides = (np.abs(each).round(_DECIMALS) for each in (one, other))
    return np.array([kendall_tau(*rows) for rows in zip(*sides, strict=True)])


def kendall_tau(one: Array, other: Array) -> float:
    """Return Kendall's rank correlation with correction for ties, tau-b (Kendall 1945).

    The number of pairs in the same order minus the number in opposite orders, divided by the
    geometric mean of the numbers of pairs without a tie in `one` and in `other`.

    Returns:
        A number from -1 to 1; NaN if all values of one side are ties or a value is NaN.

    Example:
        >>> kendall_tau(np.array([0.1, 0.2, 0.7]), np.array([1.0, 3.0, 2.0]))
        0.3333333333333333
    """
    orders = [np.sign(each[:, None] - each) for each in (one, other)]
    size = np.sqrt(np.prod([np.square(order).sum() for order in orders]))
    return float(np.prod(orders, axis=0).sum() / size) if size > 0 else np.nan
