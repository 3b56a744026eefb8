"""The largest values of each row in an order that never depends on the device or the batch."""

# B rows, M values of each; W parts of a row, V values of each part

import torch
from torch import Tensor

_BLOCK = 64
"""values whose maximum is taken before any of them is looked at by itself"""
_FEW_ROWS = 4
"""for fewer `torch.max` takes less time than the steps around it (measured)"""


def stable_max(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest value of each row and the lowest index that has it.

    `torch.max` returns the same, as it promises, but looks at every value for its index: within the
    first block of the largest maximum that takes a third of the time for many rows.

    Args:
        values: (B, V).

    Returns:
        Values and indices, (B,).
    """
    if len(values) < _FEW_ROWS:
        return values.max(dim=1)
    blocks = _block_maxima(values.unsqueeze(1)).max(dim=2).indices  # (B, 1)
    places = blocks * _BLOCK + torch.arange(_BLOCK, device=values.device)
    # What lies beyond the last value repeats it, and of equal ones the first is taken.
    places = places.clamp_(max=values.shape[1] - 1)
    largest, order = values.gather(1, places).max(dim=1, keepdim=True)
    return largest.squeeze(1), places.gather(1, order).squeeze(1)


def stable_topk_of_sums(values: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `stable_topk` of the values of all parts of a row, each part with its offset added.

    The k largest lie within the k blocks of the largest maxima, so that few values are sorted,
    and to take maxima costs a tenth of `torch.topk`. Of equal maxima the first blocks suffice,
    since the first of equal values are asked for.

    Args:
        values: (B, W, V).
        offsets: (B, W).
        k: where it exceeds W * V, all are returned.

    Returns:
        Values and indices into the W * V values of a row, (B, min(k, W * V)).
    """
    size = values.shape[2]
    maxima = _block_maxima(values) + offsets.unsqueeze(2)
    num_blocks = maxima.shape[2]
    blocks = stable_topk(maxima.flatten(1), k)[1].sort(dim=1).values  # (B, k)
    parts = blocks // num_blocks
    places = (blocks % num_blocks * _BLOCK).unsqueeze(2)
    places = places + torch.arange(_BLOCK, device=places.device)  # (B, k, _BLOCK)
    indices = (parts.unsqueeze(2) * size + places.clamp(max=size - 1)).flatten(1)
    candidates = values.flatten(1).gather(1, indices).view(places.shape)
    candidates = candidates + offsets.gather(1, parts).unsqueeze(2)
    candidates = candidates.masked_fill_(places >= size, -torch.inf).flatten(1)
    largest, order = stable_topk(candidates, min(k, values.shape[1] * size))
    return largest, indices.gather(1, order)


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row, the largest first, equal ones by lower index.

    `torch.topk` promises neither which of equal values it returns nor their order. Equal values
    of -inf may come in any order here too.

    Args:
        values: (B, M).
        k: where it exceeds M, all are returned.

    Returns:
        Values and indices, (B, min(k, M)).
    """
    if k >= values.shape[1]:
        return values.sort(dim=1, descending=True, stable=True)
    # One more than asked for shows whether equal values stand on both sides of the border.
    largest, indices = values.topk(k + 1)
    torn = (largest[:, k - 1] == largest[:, k]) & (largest[:, k] > -torch.inf)
    indices = indices[:, :k].sort(dim=1).values
    largest, order = values.gather(1, indices).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if torn.any():
        whole, order = values[torn].sort(dim=1, descending=True, stable=True)
        largest[torn], indices[torn] = whole[:, :k], order[:, :k]
    return largest, indices


def _block_maxima(values: Tensor) -> Tensor:
    """Return the largest of every `_BLOCK` values and of the rest, (B, W, V) -> (B, W, blocks)."""
    whole = values.shape[2] // _BLOCK * _BLOCK
    blocks = values[:, :, :whole].reshape(*values.shape[:2], -1, _BLOCK)
    maxima = blocks.amax(dim=3)
    if whole == values.shape[2]:
        return maxima
    return torch.cat((maxima, values[:, :, whole:].amax(dim=2, keepdim=True)), dim=2)
