"""Compute the training losses: smoothed cross-entropy, guided attention, coverage and R-Drop."""

# B batch, N heads, T target length, S source length, V vocabulary, M real tokens of the batch

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.data import Batch
from seq2seq.kernels.divergence import token_divergence
from seq2seq.kernels.vocabulary_loss import vocabulary_loss
from seq2seq.model.seq2seq import Seq2Seq

_MIN_WEIGHT = 1e-20
"""Smallest attention weight that a logarithm is taken of. The gradient 1 / weight times fp16's loss
scale must stay within fp32; the gradient of smaller weights hardly moves them."""


class GuidedLoss(NamedTuple):
    """The loss of attention against the alignments of a batch."""

    cross_entropy: Tensor
    """Cross-entropy between guide and attention weights, summed, in nats."""
    num_tokens: Tensor
    """Number of target tokens with a guide."""


class Loss(NamedTuple):
    """Losses of a batch, summed over real target tokens including EOS, in nats."""

    smoothed: Tensor
    """Cross-entropy with label smoothing, which training minimizes."""
    cross_entropy: Tensor
    """Cross-entropy without label smoothing, detached."""
    attention_weights: Tensor
    """Detached, (B, N, T, S)."""
    guided: GuidedLoss | None = None
    """None if the batch has no guide."""
    divergence: Tensor | None = None
    """Between the passes of a repeated batch, summed over the tokens of one; None if not asked."""
    coverage: Tensor | None = None
    """Coverage loss, an amount of attention and not nats; None if not asked."""


def sequence_loss(
    model: Seq2Seq,
    batch: Batch,
    *,
    label_smoothing: float,
    forced_mask: Tensor | None = None,
    is_repeated: bool = False,
    with_coverage: bool = False,
) -> Loss:
    """Compute the losses of a batch.

    Args:
        model: The model.
        batch: Sources, targets and, for guided attention, the guide.
        label_smoothing: Probability that is spread over the vocabulary; see `vocabulary_loss`.
        forced_mask: (B, T) bool; True feeds the true previous token, False the predicted one. None
            feeds every true token.
        is_repeated: Whether the batch is of `repeat_rows`, for the divergence.
        with_coverage: Whether to compute the coverage loss.
    """
    output = model(batch.source_ids, batch.source_mask, batch.previous_ids, forced_mask)
    # Indices instead of the mask, whose gradient would be added element by element.
    real = batch.target_places
    readouts = model.decoder.readout_dropout(output.readouts.flatten(0, 1).index_select(0, real))
    layer = model.decoder.output
    smoothed, cross_entropy = vocabulary_loss(
        readouts,
        layer.weight,
        layer.bias,
        batch.target_ids.flatten().index_select(0, real),
        label_smoothing=label_smoothing,
    )
    weights = output.attention_weights
    guided = None if batch.guide is None else guided_loss(weights, batch.guide)
    diverging = token_divergence(readouts, layer.weight, layer.bias) if is_repeated else None
    coverage = coverage_loss(weights, batch.target_mask) if with_coverage else None
    return Loss(smoothed, cross_entropy, weights.detach(), guided, diverging, coverage)


def repeat_rows(batch: Batch) -> Batch:
    """Return a batch with all rows twice, the copies after the originals.

    R-Drop (Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks") compares two passes
    with different dropout. Dropout is drawn for each row, so one pass over both is two such passes.
    """
    tensors = {name: each for name, each in batch._asdict().items() if each is not None}
    doubled = batch._replace(**{name: torch.cat((each, each)) for name, each in tensors.items()})
    places = batch.target_places
    return doubled._replace(target_places=torch.cat((places, places + batch.target_ids.numel())))


def guided_loss(weights: Tensor, guide: Tensor) -> GuidedLoss:
    """Compute the cross-entropy between the guide and the mean of the heads.

    Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation":
    -sum_t sum_s A_ts log alpha_ts with the alignment A and the attention weights alpha.

    Args:
        weights: Attention weights, (B, N, T, S).
        guide: (B, T, S); each row sums to 1, or is 0 for a target token without a guide.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    logarithms = weights.mean(dim=1).clamp(min=_MIN_WEIGHT).log()  # (B, T, S)
    num_tokens = guide.any(dim=-1).sum(dtype=logarithms.dtype)
    return GuidedLoss(-(guide * logarithms).sum(), num_tokens)


def coverage_loss(weights: Tensor, target_mask: Tensor) -> Tensor:
    """Compute how much attention goes to source tokens that were attended before, summed.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", eq. 12 and
    13: sum_t sum_i min(a_ti, c_ti) with the weights a_t of the mean of the heads and their sum c_t
    over the steps before t. A step adds 0 if it reads new tokens only, and at most 1.

    Args:
        weights: Attention weights of any type, (B, N, T, S).
        target_mask: (B, T) bool, True = real token; padding is on the right.

    Example:
        >>> weights = torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]])
        >>> coverage_loss(weights, torch.tensor([[True, True]])).item()
        0.75
    """
    means = weights.to(torch.promote_types(weights.dtype, torch.float32)).mean(dim=1)  # (B, T, S)
    covered = functional.pad(means[:, :-1].cumsum(dim=1), (0, 0, 1, 0))
    return torch.minimum(means, covered).sum(dim=-1).masked_fill(~target_mask, 0).sum()


def perplexity(loss: float) -> float:
    """Return the perplexity of a loss in nats per token; huge losses give a finite number too."""
    return math.exp(min(loss, 700.0))
