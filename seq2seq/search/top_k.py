"""The largest values of rows; among equal values, the lower index comes first."""

# B rows, M or V values of each, W parts of a row

import torch
from torch import Tensor

BLOCK = 64
"""Number of values whose maximum is computed first."""
_FEW_ROWS = 4
"""Below this number of rows, `torch.max` over whole rows is faster on a CPU (measured)."""


def stable_max(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest value of each row and its lowest index.

    `torch.max` gives the same result but computes an index for every value. Computing it only
    within the first block with the largest maximum takes a third of the time for many rows on a
    CPU. On a GPU, it is ten operations instead of one.

    Args:
        values: (B, V).

    Returns:
        Values and indices, (B,).

    Example:
        >>> values, indices = stable_max(torch.tensor([[0.5, 2.0, 2.0]]))
        >>> values.tolist(), indices.tolist()
        ([2.0], [1])
    """
    if len(values) < _FEW_ROWS or values.is_cuda:
        return values.max(dim=1)
    blocks = block_maxima(values.unsqueeze(1)).max(dim=2).indices  # (B, 1)
    places = blocks * BLOCK + torch.arange(BLOCK, device=values.device)
    # Indices beyond the end repeat the last value; among equal values, the first is taken.
    places = places.clamp_(max=values.shape[1] - 1)
    largest, order = values.gather(1, places).max(dim=1, keepdim=True)
    return largest.squeeze(1), places.gather(1, order).squeeze(1)


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row in descending order, ties by lower index.

    `torch.topk` guarantees neither which of equal values it returns nor their order. Here only
    values of -inf may come in any order.

    Args:
        values: (B, M).
        k: Number of values; more than M returns all.

    Returns:
        Values and indices, (B, min(k, M)).
    """
    if k >= values.shape[1]:
        return values.sort(dim=1, descending=True, stable=True)
    # The value after the last one shows whether equal values lie on both sides of the cut.
    largest, indices = values.topk(k + 1)
    torn = (largest[:, k - 1] == largest[:, k]) & (largest[:, k] > -torch.inf)
    indices = indices[:, :k].sort(dim=1).values
    largest, order = values.gather(1, indices).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if torn.any():
        whole, order = values[torn].sort(dim=1, descending=True, stable=True)
        largest[torn], indices[torn] = whole[:, :k], order[:, :k]
    return largest, indices


def block_maxima(values: Tensor) -> Tensor:
    """Return the maximum of every `BLOCK` values and of the rest, (B, W, V) -> (B, W, blocks)."""
    whole = values.shape[2] // BLOCK * BLOCK
    blocks = values[:, :, :whole].reshape(*values.shape[:2], -1, BLOCK)
    maxima = blocks.amax(dim=3)
    if whole == values.shape[2]:
        return maxima
    return torch.cat((maxima, values[:, :, whole:].amax(dim=2, keepdim=True)), dim=2)


def stable_topk_of_sums(values: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `stable_topk` over all parts of a row, with an offset added to each part.

    The k largest values lie in the k blocks with the largest maxima, so few values are sorted;
    computing maxima takes a tenth of the time of `torch.topk`. Of blocks with equal maxima the
    first suffice, because the first of equal values are returned.

    Args:
        values: (B, W, V).
        offsets: (B, W).
        k: Number of values; more than W * V returns all.

    Returns:
        Values and indices into the W * V values of a row, (B, min(k, W * V)).
    """
    size = values.shape[2]
    maxima = block_maxima(values) + offsets.unsqueeze(2)
    num_blocks = maxima.shape[2]
    blocks = stable_topk(maxima.flatten(1), k)[1].sort(dim=1).values  # (B, k)
    parts = blocks // num_blocks
    places = (blocks % num_blocks * BLOCK).unsqueeze(2)
    places = places + torch.arange(BLOCK, device=places.device)  # (B, k, BLOCK)
    indices = (parts.unsqueeze(2) * size + places.clamp(max=size - 1)).flatten(1)
    candidates = values.flatten(1).gather(1, indices).view(places.shape)
    candidates = candidates + offsets.gather(1, parts).unsqueeze(2)
    candidates = candidates.masked_fill_(places >= size, -torch.inf).flatten(1)
    largest, order = stable_topk(candidates, min(k, values.shape[1] * size))
    return largest, indices.gather(1, order)
