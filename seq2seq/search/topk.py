"""The largest values of each row in an order that never depends on the device or the batch."""

# B rows, M values of each

import torch
from torch import Tensor


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
