"""Cross-entropy over the real target tokens, with label smoothing, and of guided attention."""

# B batch, N heads, T target length, S source length, V vocabulary, M real tokens of the batch

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data import Batch
from seq2seq.kernels.vocabulary_loss import vocabulary_loss
from seq2seq.model.seq2seq import Seq2Seq

_LEAST_WEIGHT = 1e-20
"""Of attention. The gradient of a logarithm is 1 / weight, and fp16's loss scale times that must
stay within fp32; a weight this small can hardly be moved by its gradient anyway."""


class GuidedLoss(NamedTuple):
    """What attention costs where the batch's guide says what to look at."""

    cross_entropy: Tensor
    """between the guide and the weights, summed, in nats"""
    num_tokens: Tensor
    """target tokens that have a guide"""


class Loss(NamedTuple):
    """Sums over real target tokens, EOS included, in nats."""

    smoothed: Tensor
    """what training minimises, beside its share of `guided`"""
    cross_entropy: Tensor
    """without label smoothing, detached: what perplexity is made of"""
    attention_weights: Tensor
    """attention, detached, (B, N, T, S)"""
    guided: GuidedLoss | None = None
    """None where the batch has no guide"""


def sequence_loss(
    model: Seq2Seq, batch: Batch, *, label_smoothing: float, forced_mask: Tensor | None = None
) -> Loss:
    """Score the true targets; padding neither costs nor is computed.

    Label smoothing is that of `vocabulary_loss`.
    """
    output = model(batch.source_ids, batch.source_mask, batch.previous_ids, forced_mask)
    # By numbers, not by the mask: its gradient would be added up element by element.
    real = batch.target_mask.flatten().nonzero().squeeze(1)  # (M,)
    readouts = model.decoder.readout_dropout(output.readouts.flatten(0, 1).index_select(0, real))
    smoothed, cross_entropy = vocabulary_loss(
        readouts,
        model.decoder.output.weight,
        model.decoder.output.bias,
        batch.target_ids.flatten().index_select(0, real),
        label_smoothing=label_smoothing,
    )
    guided = None if batch.guide is None else guided_loss(output.attention_weights, batch.guide)
    return Loss(smoothed, cross_entropy, output.attention_weights.detach(), guided)


def guided_loss(weights: Tensor, guide: Tensor) -> GuidedLoss:
    """Compare the mean of the heads with the guide; tokens without one cost nothing.

    Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation":
    -sum_t sum_s A_ts log alpha_ts, with A the alignment and alpha the weights.

    Args:
        weights: attention, (B, N, T, S).
        guide: (B, T, S), rows that add up to 1 or are zeros.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    logarithms = weights.mean(dim=1).clamp(min=_LEAST_WEIGHT).log()  # (B, T, S)
    num_tokens = guide.any(dim=-1).sum(dtype=logarithms.dtype)
    return GuidedLoss(-(guide * logarithms).sum(), num_tokens)
