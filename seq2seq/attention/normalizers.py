"""The functions that turn scores into weights, and the masks that they accept."""

# B batch, S source length, T target length, N heads

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable


def masked_softmax(scores: Tensor, valid: Tensor) -> Tensor:
    """Normalize scores over the last axis, with weight exactly 0 for masked positions.

    Args:
        scores: Scores of shape (B, T, S) or, with heads, (B, N, T, S).
        valid: Lengths of shape (B,) or (B, T), or a bool mask of shape (B, S) or (B, T, S) that is
            True at real positions.

    Returns:
        Weights of the shape of `scores`; under autocast, in single precision. A row without a real
        position is all zeros, not NaN.

    Raises:
        ValueError: The scores have the wrong number of axes, the shape of `valid` does not fit
            them, or a length is out of range.

    Example:
        >>> import torch
        >>> from seq2seq.attention.normalizers import masked_softmax
        >>> scores = torch.zeros(2, 1, 3)  # B=2, T=1, S=3
        >>> masked_softmax(scores, torch.tensor([2, 0]))
        tensor([[[0.5000, 0.5000, 0.0000]],
        <BLANKLINE>
                [[0.0000, 0.0000, 0.0000]]])
    """
    mask = fit_mask(valid, scores.shape)
    weights = torch.where(mask, with_autocast_precision(scores), -torch.inf).softmax(dim=-1)
    # A row is NaN here if all its positions are padding; in other rows, padding is already 0.
    return torch.where(mask, weights, 0.0)


def with_autocast_precision(scores: Tensor) -> Tensor:
    """Return low-precision scores in single precision if autocast is on.

    Autocast itself converts scores only for softmax on a GPU.
    """
    if torch.is_autocast_enabled(scores.device.type):
        return scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores


def fit_mask(valid: Tensor, scores_shape: tuple[int, ...]) -> Tensor:
    """Convert lengths or a mask to a mask with the axes of the scores.

    Args:
        valid: Lengths or a mask, as in `masked_softmax`.
        scores_shape: Shape of the scores, (B, T, S) or (B, N, T, S).

    Returns:
        Mask of shape (B, 1 or T, S) or, with heads, (B, 1, 1 or T, S).

    Raises:
        ValueError: The scores have the wrong number of axes, or `valid` does not fit them.
    """
    mask = valid if valid.dtype == torch.bool else lengths_to_mask(valid, scores_shape[-1])
    batch, targets, sources = scores_shape[0], *scores_shape[-2:]
    fitting = ((batch, sources), (batch, targets, sources))
    if len(scores_shape) not in (3, 4) or mask.shape not in fitting:
        kind = "a mask" if valid.dtype == torch.bool else "lengths"
        raise ValueError(
            f"attention: {kind} of shape {tuple(valid.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}; give scores (B, T, S) or (B, N, T, S), and lengths (B,) or "
            "(B, T) or a mask (B, S) or (B, T, S)"
        )
    if mask.dim() == 2:
        mask = mask.unsqueeze(1)  # (B, 1, S)
    return mask.unsqueeze(1) if len(scores_shape) == 4 else mask


def lengths_to_mask(lengths: Tensor, size: int) -> Tensor:
    """Return the mask (..., size) of lengths (...), True at real positions.

    Raises:
        ValueError: A length is negative or larger than the size.
    """
    if lengths.numel() > 0 and not 0 <= int(lengths.min()) <= int(lengths.max()) <= size:
        raise ValueError(
            f"attention: lengths from {int(lengths.min())} to {int(lengths.max())} do not fit "
            f"{size} keys; give lengths from 0 to {size}"
        )
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def masked_sparsemax(scores: Tensor, valid: Tensor) -> Tensor:
    """Project scores onto the probability simplex (Martins and Astudillo 2016, algorithm 1).

    The weights are max(0, e_i - tau) with the threshold tau that makes them sum to 1.

    Args:
        scores: Scores, as in `masked_softmax`.
        valid: Lengths or a mask, as in `masked_softmax`.

    Returns:
        Weights, as in `masked_softmax`, computed in single precision or better.

    Raises:
        ValueError: As in `masked_softmax`.

    Example:
        >>> import torch
        >>> from seq2seq.attention.normalizers import masked_sparsemax
        >>> masked_sparsemax(torch.tensor([[[0.5, 0.0, -2.0, 9.0]]]), torch.tensor([3]))
        tensor([[[0.7500, 0.2500, 0.0000, 0.0000]]])
    """
    return _normalize(scores, valid, alpha=2.0)


def masked_entmax15(scores: Tensor, valid: Tensor) -> Tensor:
    """Normalize scores by entmax with alpha = 1.5 (Peters, Niculae and Martins 2019, eq. 10).

    The weights are max(0, e_i / 2 - tau)^2 with the threshold tau that makes them sum to 1. They
    are sparser than with softmax and smoother than with sparsemax. Sorting the scores
    gives the exact threshold (algorithm 2 of the paper). Arguments, result and errors are as in
    `masked_sparsemax`.

    Example:
        >>> import torch
        >>> from seq2seq.attention.normalizers import masked_entmax15
        >>> masked_entmax15(torch.tensor([[[0.5, 0.0, -2.0, 9.0]]]), torch.tensor([3]))
        tensor([[[0.6740, 0.3260, 0.0000, 0.0000]]])
    """
    return _normalize(scores, valid, alpha=1.5)


def _normalize(scores: Tensor, valid: Tensor, *, alpha: float) -> Tensor:
    mask = fit_mask(valid, scores.shape)
    if scores.shape[-1] == 0:
        return scores  # an empty row has no maximum
    scores = with_autocast_precision(scores)
    weights: Tensor = _Entmax.apply(scores, mask, alpha)  # type: ignore[no-untyped-call]
    return weights


class _Entmax(Function):
    """Entmax with alpha = 1.5, or with alpha = 2, which is sparsemax."""

    @staticmethod
    def forward(ctx: FunctionCtx, scores: Tensor, mask: Tensor, alpha: float) -> Tensor:
        exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
        highest = torch.where(mask, exact, -torch.inf).amax(-1, keepdim=True)
        # The threshold is at most 1 below the highest score. Padding and much lower scores are set
        # to 2 below the highest score: so far from the threshold, rounding cannot give them weight.
        gaps = torch.where(mask, (alpha - 1) * (exact - highest), -2.0).clamp_(min=-2)
        threshold = _sparsemax_threshold(gaps) if alpha == 2 else _entmax15_threshold(gaps)
        # If all positions of a row are padding, all gaps are equal, and so would be the weights.
        roots = torch.where(mask, (gaps - threshold).clamp_(min=0), 0.0)
        # The Jacobian of the weights p is diag(s) - s s^T / sum(s), where s = p^(2-alpha).
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
    # Sums of squared distances from the mean, for the largest 1, 2, ... numbers.
    squares = ordered.square().cumsum(-1) - sizes * means.square()
    thresholds = means - ((1 - squares) / sizes).clamp(min=0).sqrt()
    return _last(thresholds, of=thresholds <= ordered)


def _in_order(gaps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of each row in descending order, and 1, 2, ..., S."""
    sizes = torch.arange(1, gaps.shape[-1] + 1, dtype=gaps.dtype, device=gaps.device)
    return gaps.sort(-1, descending=True).values, sizes


def _last(thresholds: Tensor, *, of: Tensor) -> Tensor:
    """Return the threshold at the end of the support, which is where `of` is True."""
    # NaN gives an empty support; the result is then NaN, as with softmax.
    support = of.sum(-1, keepdim=True).clamp(min=1)
    return thresholds.gather(-1, support - 1)


class Normalizer(Enum):
    """The function that turns scores into weights."""

    softmax = "softmax"
    sparsemax = "sparsemax"
    entmax15 = "entmax15"


NORMALIZERS: dict[Normalizer, Callable[[Tensor, Tensor], Tensor]] = {
    Normalizer.softmax: masked_softmax,
    Normalizer.sparsemax: masked_sparsemax,
    Normalizer.entmax15: masked_entmax15,
}
"""Functions that turn scores into weights, with the arguments of `masked_softmax`."""
