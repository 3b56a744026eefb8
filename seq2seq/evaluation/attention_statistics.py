"""Statistics of attention heads over a corpus: entropy, coverage and sharpness."""

# B batch, N heads, T target length, S source length

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
    """Accumulates the statistics of each head batch by batch.

    Example:
        >>> statistics = AttentionStatistics(num_heads=1)
        >>> real = torch.ones(1, 2, dtype=torch.bool)
        >>> weights = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
        >>> statistics.add(weights, source_mask=real, target_mask=real)
        >>> [head] = statistics.heads(error_rates=None)
        >>> head.coverage, head.sharpness
        (1.0, 0.75)
    """

    def __init__(self, num_heads: int) -> None:
        self._entropy = torch.zeros(num_heads, dtype=torch.float64)
        self._coverage = torch.zeros(num_heads, dtype=torch.float64)
        self._sharpness = torch.zeros(num_heads, dtype=torch.float64)
        self._num_source = self._num_target = 0

    def add(self, attention_weights: Tensor, *, source_mask: Tensor, target_mask: Tensor) -> None:
        """Add a batch.

        Args:
            attention_weights: (B, N, T, S); those of padding are ignored.
            source_mask: (B, S), True = real token; padding is on the right, and the last real
                token of each row is EOS.
            target_mask: (B, T), likewise.
        """
        is_real = target_mask[:, None, :, None] & source_mask[:, None, None, :]
        real = attention_weights.double().masked_fill(~is_real, 0)
        # A real token with another one after it is not EOS.
        before_eos = source_mask[:, None, 1:]  # (B, 1, S - 1)
        received = real.sum(dim=2)[..., :-1].clamp(max=1)  # (B, N, S - 1)
        self._entropy -= torch.xlogy(real, real).sum(dim=(0, 2, 3)).cpu()
        self._coverage += (received * before_eos).sum(dim=(0, 2)).cpu()
        self._sharpness += real.amax(dim=3).sum(dim=(0, 2)).cpu()
        self._num_source += int(before_eos.sum())
        self._num_target += int(target_mask.sum())

    def merge(self, other: "AttentionStatistics") -> None:
        """Add the batches of other statistics."""
        self._entropy += other._entropy
        self._coverage += other._coverage
        self._sharpness += other._sharpness
        self._num_source += other._num_source
        self._num_target += other._num_target

    def heads(self, *, error_rates: Sequence[float] | None) -> list[HeadStatistics]:
        """Return the statistics of each head; NaN if there were no tokens to average over.

        Args:
            error_rates: Alignment error rate of each head; None without gold alignments.
        """
        means = zip(
            (self._entropy / self._num_target).tolist(),
            (self._coverage / self._num_source).tolist(),
            (self._sharpness / self._num_target).tolist(),
            [None] * len(self._entropy) if error_rates is None else error_rates,
            strict=True,
        )
        return [HeadStatistics(*each) for each in means]


def mean_over_heads(heads: Sequence[HeadStatistics]) -> dict[str, float]:
    """Return the mean entropy, coverage and sharpness; an empty dict without heads.

    Error rates are left out, because the error rate of averaged heads is not their mean.
    """
    if not heads:
        return {}
    return {
        "entropy": sum(head.entropy for head in heads) / len(heads),
        "coverage": sum(head.coverage for head in heads) / len(heads),
        "sharpness": sum(head.sharpness for head in heads) / len(heads),
    }
