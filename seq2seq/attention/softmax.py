"""The softmax that ignores padding, and the masks that it accepts."""

# B batch, S source length, T target length, N heads

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, valid: Tensor) -> Tensor:
    """Normalise scores over the last axis, with weight exactly 0 for masked positions.

    Args:
        scores: Scores of shape (B, T, S) or, with heads, (B, N, T, S).
        valid: Lengths of shape (B,) or (B, T), or a bool mask of shape (B, S) or (B, T, S) that is
            True at real positions.

    Returns:
        Weights of the shape of `scores`. A row without a real position is all zeros, not NaN.

    Raises:
        ValueError: The shape of `valid` does not fit the scores, or a length is out of range.

    Example:
        >>> import torch
        >>> from seq2seq.attention import masked_softmax
        >>> scores = torch.zeros(2, 1, 3)  # B=2, T=1, S=3
        >>> masked_softmax(scores, torch.tensor([2, 0]))
        tensor([[[0.5000, 0.5000, 0.0000]],
        <BLANKLINE>
                [[0.0000, 0.0000, 0.0000]]])
    """
    mask = fit_mask(valid, scores.shape)
    lowest = torch.finfo(scores.dtype).min  # finite: a row of -inf would give NaN
    weights = torch.where(mask, scores, lowest).softmax(dim=-1)
    # A row without a real position is uniform here; in other rows padding is already 0.
    return torch.where(mask, weights, 0.0)


def fit_mask(valid: Tensor, scores_shape: tuple[int, ...]) -> Tensor:
    """Return lengths or a mask as a mask with the axes of the scores.

    Args:
        valid: Lengths or a mask, as in `masked_softmax`.
        scores_shape: Shape of the scores, (B, T, S) or (B, N, T, S).

    Returns:
        Mask of shape (B, 1 or T, S) or, with heads, (B, 1, 1 or T, S).

    Raises:
        ValueError: `valid` does not fit the scores.
    """
    mask = valid if valid.dtype == torch.bool else lengths_to_mask(valid, scores_shape[-1])
    batch, targets, sources = scores_shape[0], *scores_shape[-2:]
    fitting = ((batch, sources), (batch, targets, sources))
    if len(scores_shape) not in (3, 4) or mask.shape not in fitting:
        kind = "a mask" if valid.dtype == torch.bool else "lengths"
        raise ValueError(
            f"attention: {kind} of shape {tuple(valid.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}; give lengths (B,) or (B, T) or a mask (B, S) or (B, T, S)"
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
