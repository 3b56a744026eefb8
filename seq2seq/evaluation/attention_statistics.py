"""How the heads of an attention read a corpus: how widely, how completely, how sharply."""

# B batch, N heads, T target length, S source length

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class HeadStatistics(NamedTuple):
    """How one head reads; means over a whole corpus, whatever the batches."""

    entropy: float
    """nats: of each target token's weights, averaged over target tokens, EOS included"""
    coverage: float
    """of each source token without EOS, the weight it got from all target tokens of its sentence,
    EOS included, but at most 1 (as Wu et al. 2016, eq. 14); averaged over source tokens. 1: none
    was left out; at most the target's length over the source's where targets are shorter"""
    sharpness: float
    """the largest of each target token's weights, averaged over target tokens, EOS included"""
    alignment_error_rate: float | None
    """of the head alone; None where no gold alignments are known"""


class AttentionStatistics:
    """Sums up the attention of one batch after the other."""

    def __init__(self, num_heads: int) -> None:
        self._entropy = torch.zeros(num_heads, dtype=torch.float64)
        self._coverage = torch.zeros(num_heads, dtype=torch.float64)
        self._sharpness = torch.zeros(num_heads, dtype=torch.float64)
        self._num_source = self._num_target = 0

    def add(self, weights: Tensor, *, source_mask: Tensor, target_mask: Tensor) -> None:
        """Count a batch in.

        Args:
            weights: (B, N, T, S); what padding has is not looked at.
            source_mask: (B, S), True = real; padding is on the right, and the last real token of
                each row is EOS.
            target_mask: (B, T), likewise.
        """
        is_real = target_mask[:, None, :, None] & source_mask[:, None, None, :]
        real = weights.double().masked_fill(~is_real, 0)
        # A real token is not the EOS where another one follows.
        before_eos = source_mask[:, None, 1:]  # (B, 1, S - 1)
        received = real.sum(dim=2)[..., :-1].clamp(max=1)  # (B, N, S - 1)
        self._entropy -= torch.xlogy(real, real).sum(dim=(0, 2, 3)).cpu()
        self._coverage += (received * before_eos).sum(dim=(0, 2)).cpu()
        self._sharpness += real.amax(dim=3).sum(dim=(0, 2)).cpu()
        self._num_source += int(before_eos.sum())
        self._num_target += int(target_mask.sum())

    def heads(self, *, error_rates: Sequence[float] | None) -> list[HeadStatistics]:
        """Return each head's means; NaN where there was no token to average over.

        Args:
            error_rates: each head's alignment error rate; None where it is not known.
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
    """Return the mean entropy, coverage and sharpness; nothing without heads.

    Error rates are left out: that of the heads' mean is no mean of theirs.
    """
    if not heads:
        return {}
    return {
        "entropy": sum(head.entropy for head in heads) / len(heads),
        "coverage": sum(head.coverage for head in heads) / len(heads),
        "sharpness": sum(head.sharpness for head in heads) / len(heads),
    }
