"""Cross-entropy over a large vocabulary, whose logits are never held all at once."""

# M tokens, F readout, V vocabulary

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from seq2seq.products import product_dtype

_CHUNK = 1024
"""tokens whose logits are held at once: enough for fast products, few enough for the cache"""


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
    factors = readouts.to(product_dtype(readouts)), weight.to(product_dtype(weight))
    trains = torch.is_grad_enabled() and any(each.requires_grad for each in (*factors, bias))
    with torch.autocast(readouts.device.type, enabled=False):  # what follows chooses for itself
        smoothed, cross_entropy = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
            *factors, bias, true_ids, label_smoothing, trains
        )
    return smoothed, cross_entropy


class _VocabularyLoss(Function):
    """The loss and, in the same pass over the logits, its gradient.

    With p = softmax(l) the loss of a token is sum_v q_v (log sum_w exp l_w - l_v), and its
    gradient for l is p - q. The logarithm of the sum is max l - log max p, so that one softmax
    gives both, and p - q takes the place of p. Differences of logits are taken first: they are
    smaller than logits, and so are their rounding errors.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        readouts: Tensor,
        weight: Tensor,
        bias: Tensor,
        true_ids: Tensor,
        label_smoothing: float,
        trains: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(readouts.dtype, torch.float32)
        smoothed, cross_entropy = (readouts.new_zeros((), dtype=exact) for _ in range(2))
        grads = _Grads.zeros(readouts, weight, bias, dtype=exact) if trains else None
        mean_weight, mean_bias = weight.mean(0, dtype=exact), bias.mean()
        for start in range(0, len(readouts), _CHUNK):
            rows, ids = readouts[start : start + _CHUNK], true_ids[start : start + _CHUNK, None]
            logits = torch.addmm(bias.to(rows.dtype), rows, weight.t()).to(exact)
            probabilities = torch.softmax(logits, 1)
            largest, surprise = logits.amax(1, keepdim=True), -probabilities.amax(1, True).log()
            true_losses = largest - logits.gather(1, ids) + surprise
            mean_logits = (rows.to(exact) @ mean_weight + mean_bias).unsqueeze(1)
            mean_losses = largest - mean_logits + surprise
            smoothed += torch.lerp(true_losses, mean_losses, label_smoothing).sum()
            cross_entropy += true_losses.sum()
            if grads is not None:
                true_shares = probabilities.new_full(ids.shape, label_smoothing - 1)
                errors = probabilities.scatter_add_(1, ids, true_shares)
                grads.add(errors, rows=rows, weight=weight, start=start)
        if grads is not None:
            share = label_smoothing / len(bias)
            grads.readouts.sub_(mean_weight, alpha=label_smoothing)
            grads.weight.sub_(readouts.sum(0, dtype=exact), alpha=share)
            grads.bias.sub_(share * len(readouts))
            ctx.save_for_backward(*grads)
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, smoothed_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grads: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(grad * smoothed_grad for grad in grads), None, None, None


class _Grads(NamedTuple):
    """Gradients of the summed loss."""

    readouts: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def zeros(cls, *factors: Tensor, dtype: torch.dtype) -> "_Grads":
        """Return gradients of readouts, weight and bias to which nothing has been added."""
        return cls(*(torch.zeros_like(each, dtype=dtype) for each in factors))

    def add(self, errors: Tensor, *, rows: Tensor, weight: Tensor, start: int) -> None:
        """Add what some tokens contribute, whose logits have these errors."""
        factors = errors.to(rows.dtype)
        self.readouts[start : start + len(rows)] = torch.mm(factors, weight)
        self.bias.addmv_(errors.t(), errors.new_ones(len(errors)))  # a sum, but faster
        if rows.dtype == self.weight.dtype:
            self.weight.addmm_(factors.t(), rows)
        else:
            self.weight.add_(torch.mm(factors.t(), rows))
