"""Sparse alternatives to softmax, which give most positions a weight of exactly 0."""

# B batch, S source length, T target length, N heads

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from seq2seq.attention.softmax import fit_mask


def masked_sparsemax(scores: Tensor, valid: Tensor) -> Tensor:
    """Project scores onto the probability simplex (Martins and Astudillo 2016, algorithm 1).

    The weights are max(0, e_i - tau) with the threshold tau that makes them sum to 1.

    Args:
        scores: Scores, as in `masked_softmax`.
        valid: Lengths or a mask, as in `masked_softmax`.

    Returns:
        Weights of the shape of `scores`, computed in single precision or better. A row without a
        real position is all zeros.

    Raises:
        ValueError: The shape of `valid` does not fit the scores, or a length is out of range.

    Example:
        >>> import torch
        >>> from seq2seq.attention import masked_sparsemax
        >>> masked_sparsemax(torch.tensor([[[0.5, 0.0, -2.0, 9.0]]]), torch.tensor([3]))
        tensor([[[0.7500, 0.2500, 0.0000, 0.0000]]])
    """
    return _normalize(scores, valid, alpha=2.0)


def masked_entmax15(scores: Tensor, valid: Tensor) -> Tensor:
    """Normalise scores by entmax with alpha = 1.5 (Peters, Niculae and Martins 2019, eq. 10).

    The weights are max(0, e_i / 2 - tau)^2 with the threshold tau that makes them sum to 1. They
    are sparser than those of softmax and smoother than those of sparsemax. Sorting the scores
    gives the exact threshold (algorithm 2 of the paper). Arguments, result and errors are those of
    `masked_sparsemax`.

    Example:
        >>> import torch
        >>> from seq2seq.attention import masked_entmax15
        >>> masked_entmax15(torch.tensor([[[0.5, 0.0, -2.0, 9.0]]]), torch.tensor([3]))
        tensor([[[0.6740, 0.3260, 0.0000, 0.0000]]])
    """
    return _normalize(scores, valid, alpha=1.5)


def _normalize(scores: Tensor, valid: Tensor, *, alpha: float) -> Tensor:
    mask = fit_mask(valid, scores.shape)
    if scores.shape[-1] == 0:
        return scores  # an empty row has no highest score
    weights: Tensor = _Entmax.apply(scores, mask, alpha)  # type: ignore[no-untyped-call]
    return weights


class _Entmax(Function):
    """Entmax with alpha = 1.5 or, which is sparsemax, alpha = 2."""

    @staticmethod
    def forward(ctx: FunctionCtx, scores: Tensor, mask: Tensor, alpha: float) -> Tensor:
        exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
        highest = torch.where(mask, exact, torch.finfo(exact.dtype).min).amax(-1, keepdim=True)
        # The threshold is at most 1 below the highest score, so lower scores have no weight.
        gaps = torch.where(mask, (alpha - 1) * (exact - highest), -1.0).clamp_(min=-1)
        threshold = _sparsemax_threshold(gaps) if alpha == 2 else _entmax15_threshold(gaps)
        # A row without a real position has equal gaps and would get equal weights.
        roots = torch.where(mask, (gaps - threshold).clamp_(min=0), 0.0)
        # The derivative of the weights by the scores is diag(s) - s s^T / sum(s), s = p^(2-alpha).
        ctx.save_for_backward((roots > 0).to(exact.dtype) if alpha == 2 else roots)
        return (roots if alpha == 2 else roots.square()).to(scores.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors  # type: ignore[attr-defined]
        sloped = slopes * grad
        total = slopes.sum(-1, keepdim=True)
        total = torch.where(total > 0, total, 1.0)
        return (sloped - slopes * (sloped.sum(-1, keepdim=True) / total)).to(grad.dtype), None, None


def _sparsemax_threshold(gaps: Tensor) -> Tensor:
    """Return tau with sum(max(0, z - tau)) = 1 for each row z."""
    ordered, sizes = _in_order(gaps)
    sums = ordered.cumsum(-1)
    return _last((sums - 1) / sizes, of=1 + sizes * ordered > sums)


def _entmax15_threshold(gaps: Tensor) -> Tensor:
    """Return tau with sum(max(0, z - tau)^2) = 1 for each row z."""
    ordered, sizes = _in_order(gaps)
    means = ordered.cumsum(-1) / sizes
    # The sum of squared distances from the mean, of the largest 1, 2, ... numbers.
    squares = ordered.square().cumsum(-1) - sizes * means.square()
    thresholds = means - ((1 - squares) / sizes).clamp(min=0).sqrt()
    return _last(thresholds, of=thresholds <= ordered)


def _in_order(gaps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of each row in descending order, and 1, 2, ..., S."""
    sizes = torch.arange(1, gaps.shape[-1] + 1, dtype=gaps.dtype, device=gaps.device)
    return gaps.sort(-1, descending=True).values, sizes


def _last(thresholds: Tensor, *, of: Tensor) -> Tensor:
    """Return the threshold at the end of the support: the first positions, True in `of`."""
    # NaN gives no support at all; the result is NaN then, as that of softmax.
    support = of.sum(-1, keepdim=True).clamp(min=1)
    return thresholds.gather(-1, support - 1)
