"""Losses over a large vocabulary, computed in chunks of logits."""

# M tokens, F readout, V vocabulary

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from seq2seq.runtime.kernels.operations import kernels_are_fast, product_dtype

_CHUNK = 32 << 20
"""Bytes of logits per product; enough rows for fast products."""
_BLOCK = 1 << 18
"""Number of logits that a CPU scores at once; few enough to stay in its cache."""


def vocabulary_loss(
    readouts: Tensor, weight: Tensor, bias: Tensor, true_ids: Tensor, *, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Compute the cross-entropy of true tokens under the logits l = W r + b.

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
    if not kernels_are_fast():
        return _plain_loss(readouts, weight, bias, true_ids, label_smoothing)
    factors = (readouts, weight, bias)
    needs_grad = torch.is_grad_enabled() and any(each.requires_grad for each in factors)
    dtype = product_dtype(weight)
    with torch.autocast(readouts.device.type, enabled=False):  # the function does its own casts
        smoothed, cross_entropy = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
            *factors, true_ids.unsqueeze(1), label_smoothing, dtype, needs_grad
        )
    return smoothed, cross_entropy


def _plain_loss(
    readouts: Tensor, weight: Tensor, bias: Tensor, true_ids: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    logits = functional.linear(readouts, weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = [
        functional.cross_entropy(logits, true_ids, reduction="sum", label_smoothing=smoothing)
        for smoothing in (label_smoothing, 0.0)
    ]
    return losses[0], losses[1].detach()


class _VocabularyLoss(Function):
    """The loss and its gradient, computed in one pass over the logits.

    With p = softmax(l) the loss of a token is sum_v q_v (log sum_w exp l_w - l_v), and its
    gradient with respect to l is p - q. Only the products may use low precision.
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
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(dtype, torch.float32)
        zeros = (torch.zeros_like(each, dtype=exact) for each in (readouts, weight, bias))
        grads = _Grads(*zeros) if needs_grad else None
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


def _score(
    logits: Tensor, bias: Tensor, true_ids: Tensor, label_smoothing: float, grads: _Grads | None
) -> Tensor:
    """Return the summed losses with the true tokens (M, 1) and with a uniform target, (2,).

    The logits (M, V) come without their bias. If `grads` is given, the gradient of the bias is
    added to it, and p - q overwrites the logits.
    """
    size = _block_rows(logits)
    losses = bias.new_zeros(2)
    for block, ids in zip(torch.split(logits, size), torch.split(true_ids, size), strict=True):
        exact = block.to(bias.dtype).add_(bias)
        exact -= exact.amax(1, keepdim=True)  # keeps rounding errors small
        scored = torch.cat((exact.gather(1, ids), exact.mean(1, keepdim=True)), dim=1)
        weights = exact.exp_()
        totals = weights.sum(1, keepdim=True)
        losses += (totals.log() - scored).sum(0)
        if grads is not None:
            errors = weights.div_(totals).sub_(label_smoothing / len(bias))
            errors.scatter_add_(1, ids, totals.new_full(ids.shape, label_smoothing - 1))
            grads.bias.addmv_(errors.t(), errors.new_ones(len(errors)))  # faster than errors.sum(0)
            block.copy_(errors)
    return losses


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the product a b to a total that may have a higher precision."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
        return
    # Adding creates a converted copy; in parts, the copy stays in the processor's cache.
    parts = (torch.split(each, _block_rows(total)) for each in (total, torch.mm(a, b)))
    for part, product in zip(*parts, strict=True):
        part.add_(product)


def _block_rows(matrix: Tensor) -> int:
    """Return the number of rows to work on at once: all on a GPU."""
    return len(matrix) if matrix.is_cuda else max(1, _BLOCK // matrix.shape[1])
