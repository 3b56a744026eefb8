"""Statistics of attention heads over a corpus: entropy, coverage and sharpness."""

# N heads, T target length, S source length

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


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
        self._num_heads = num_heads
        # Entropy, coverage and sharpness of each head; numbers of source and of target tokens.
        self._sums = torch.zeros(3 * num_heads + 2, dtype=torch.float64)

    def add(self, attention_weights: Tensor) -> None:
        """Add the weights of a sentence, (N, T, S), on the CPU; T and S count EOS."""
        weights = attention_weights.double()
        received = weights.sum(dim=1)[:, :-1].clamp(max=1)  # (N, S - 1)
        sums = (
            -torch.xlogy(weights, weights).sum(dim=(1, 2)),
            received.sum(dim=1),
            weights.amax(dim=2).sum(dim=1),
            torch.tensor([weights.shape[2] - 1, weights.shape[1]]),
        )
        self._sums += torch.cat(sums)

    def merge(self, other: "AttentionStatistics") -> None:
        """Add the sentences of other statistics."""
        self._sums += other._sums

    def heads(self, *, error_rates: Sequence[float] | None) -> list[HeadStatistics]:
        """Return the statistics of each head; NaN if there were no tokens to average over.

        Args:
            error_rates: Alignment error rate of each head; None without gold alignments.
        """
        entropy, coverage, sharpness = self._sums[:-2].view(3, self._num_heads)
        num_source, num_target = self._sums[-2:]
        means = zip(
            (entropy / num_target).tolist(),
            (coverage / num_source).tolist(),
            (sharpness / num_target).tolist(),
            [None] * self._num_heads if error_rates is None else error_rates,
            strict=True,
        )
        return [HeadStatistics(*of_head) for of_head in means]


def mean_over_heads(heads: Sequence[HeadStatistics]) -> dict[str, float]:
    """Return the mean entropy, coverage and sharpness; an empty dict without heads.

    Error rates are left out, because the error rate of averaged heads is not their mean.
    """
    if not heads:
        return {}
    names = ("entropy", "coverage", "sharpness")
    return {name: sum(getattr(head, name) for head in heads) / len(heads) for name in names}
