"""Copy several tensors to a GPU at once."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

_ALIGNMENT = 16
"""Bytes; every tensor starts at a multiple, as kernels that read four numbers at once need it."""


def copy_to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Return CPU tensors on a device, on a GPU as parts of one block of bytes.

    One copy from pinned memory starts, and the host does not wait for it. A copy from pageable
    memory would make the host wait, and several copies would cost several starts.
    """
    if device.type != "cuda":
        return [each.to(device) for each in tensors]
    parts = [each.contiguous().flatten().view(torch.uint8) for each in tensors]
    padded = [functional.pad(part, (0, -len(part) % _ALIGNMENT)) for part in parts]
    block = torch.cat(padded).pin_memory().to(device, non_blocking=True)
    split = torch.split(block, [len(part) for part in padded])
    return [
        moved[: len(part)].view(each.dtype).view(each.shape)
        for moved, part, each in zip(split, parts, tensors, strict=True)
    ]
