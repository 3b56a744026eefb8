"""Cross-entropy over a large vocabulary, whose logits are never held all at once."""

# M tokens, F readout, V vocabulary

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from seq2seq.kernels.packed_matmul import product_dtype

_CHUNK = 32 << 20
"""bytes of logits that are held at once: enough rows for fast products"""
_BLOCK = 1 << 18
"""logits that a CPU scores at once: they stay in its cache from the first pass to the last"""


def vocabulary_loss(
    readouts: Tensor, weight: Tensor, bias: Tensor, true_ids: Tensor, *, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Score true tokens by the logits l = W r + b.

    With smoothing e the target distribution q is (1 - e) at the true token plus e / V everywhere
    (Szegedy et al. 2016, section 7).

    Args:
        readouts: r, (M, F).
        weight: W, (V, F).
        bias: b, (V,).
        true_ids: (M,).
        label_smoothing: e, in [0, 1).

    Returns:
        The cross-entropies with q and with the true tokens alone, summed over tokens, in nats,
        in fp32 or better. The second has no gradient.
    """
    factors = (readouts, weight, bias)
    trains = torch.is_grad_enabled() and any(each.requires_grad for each in factors)
    dtype = product_dtype(weight)
    with torch.autocast(readouts.device.type, enabled=False):  # what follows chooses for itself
        smoothed, cross_entropy = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
            *factors, true_ids.unsqueeze(1), label_smoothing, dtype, trains
        )
    return smoothed, cross_entropy


class _VocabularyLoss(Function):
    """The loss and, in the same pass over the logits, its gradient.

    With p = softmax(l) the loss of a token is sum_v q_v (log sum_w exp l_w - l_v), and its
    gradient for l is p - q. Products may be of low precision; nothing else is.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        readouts: Tensor,
        weight: Tensor,
        bias: Tensor,
        true_ids: Tensor,
        label_smoothing: float,
        dtype: torch.dtype,
        trains: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(dtype, torch.float32)
        grads = _Grads.zeros(readouts, weight, bias, dtype=exact) if trains else None
        readouts, weight, bias = readouts.to(dtype), weight.to(dtype), bias.to(exact)
        losses = bias.new_zeros(2)
        num_rows = max(1, _CHUNK // (len(weight) * weight.element_size()))
        for start in range(0, len(readouts), num_rows):
            chunk = slice(start, start + num_rows)
            logits = torch.mm(readouts[chunk], weight.t())
            losses += _score(logits, bias, true_ids[chunk], label_smoothing, grads)
            if grads is not None:
                grads.readouts[chunk] = torch.mm(logits, weight)
                _add_product(grads.weight, logits.t(), readouts[chunk])
        if grads is not None:
            ctx.save_for_backward(*grads)
        cross_entropy = losses[0].clone()
        ctx.mark_non_differentiable(cross_entropy)
        return torch.lerp(losses[0], losses[1], label_smoothing), cross_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, smoothed_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(grad * smoothed_grad for grad in grads), None, None, None, None


class _Grads(NamedTuple):
    """Gradients of the summed loss."""

    readouts: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def zeros(cls, *factors: Tensor, dtype: torch.dtype) -> "_Grads":
        """Return gradients of readouts, weight and bias to which nothing has been added."""
        return cls(*(torch.zeros_like(each, dtype=dtype) for each in factors))


def _score(
    logits: Tensor, bias: Tensor, true_ids: Tensor, label_smoothing: float, grads: _Grads | None
) -> Tensor:
    """Return the losses of true tokens (M, 1) and of an even target, each summed, (2,).

    The logits (M, V) lack their bias. Where gradients are asked for, that of the bias gets its
    part, and p - q takes the place of the logits.
    """
    size = _block_rows(logits)
    losses = bias.new_zeros(2)
    for block, ids in zip(torch.split(logits, size), torch.split(true_ids, size), strict=True):
        exact = block.to(bias.dtype).add_(bias)
        exact -= exact.amax(1, keepdim=True)  # small numbers have small rounding errors
        scored = torch.cat((exact.gather(1, ids), exact.mean(1, keepdim=True)), dim=1)
        weights = exact.exp_()
        totals = weights.sum(1, keepdim=True)
        losses += (totals.log() - scored).sum(0)
        if grads is not None:
            errors = weights.div_(totals).sub_(label_smoothing / len(bias))
            errors.scatter_add_(1, ids, totals.new_full(ids.shape, label_smoothing - 1))
            grads.bias.addmv_(errors.t(), errors.new_ones(len(errors)))  # a sum, but faster
            block.copy_(errors)
    return losses


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a b to what may be of a higher precision."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
        return
    # torch adds a converted copy, which stays in the cache.
    parts = (torch.split(each, _block_rows(total)) for each in (total, torch.mm(a, b)))
    for part, product in zip(*parts, strict=True):
        part.add_(product)


def _block_rows(matrix: Tensor) -> int:
    """Return how many rows to work on at once: a GPU takes all."""
    return len(matrix) if matrix.is_cuda else max(1, _BLOCK // matrix.shape[1])
