"""Multiply the rows of many steps by the same matrix, packed once for the CPU's library."""

# M rows, I input, O output

from collections.abc import Callable

import torch
from torch import Tensor

from seq2seq.kernels.switch import kernels_are_fast

_WORTH_PACKING = 4
"""Uses; packing costs about one product and makes each a quarter faster (measured)."""


def product_with(weight: Tensor, *, num_rows: int, num_uses: int) -> Callable[[Tensor], Tensor]:
    """Return a function that computes x W^T for x (M, I), prepared for many uses.

    MKL and, in bf16, oneDNN multiply faster by a matrix stored in the order in which they read
    it. Packing pays only if few rows at a time meet the matrix often.

    Args:
        weight: W, (O, I).
        num_rows: M, the same in every use.
        num_uses: Approximate number of uses.
    """
    # The product of a single row reads the matrix once, in any order.
    is_worth_packing = num_rows > 1 and num_uses >= _WORTH_PACKING
    if is_worth_packing and weight.device.type == "cpu" and kernels_are_fast():
        if weight.dtype == torch.float32 and _has_mkl():
            return _pack_for_mkl(weight, num_rows)
        if weight.dtype == torch.bfloat16 and has_onednn_bf16():
            return _pack_for_onednn(weight, num_rows)
    return lambda rows: torch.mm(rows.to(weight.dtype), weight.t())


def product_dtype(factor: Tensor) -> torch.dtype:
    """Return the type in which a product with this factor is computed, autocast included."""
    device = factor.device.type
    if factor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return factor.dtype
    return torch.get_autocast_dtype(device)


def has_onednn_bf16() -> bool:
    """Return whether oneDNN multiplies bf16 here; torch for macOS on ARM lacks oneDNN."""
    # Without oneDNN the operator itself is missing.
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _pack_for_mkl(weight: Tensor, num_rows: int) -> Callable[[Tensor], Tensor]:
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, num_rows)

    def multiply(rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkl._mkl_linear(rows, packed, weight, None, num_rows)
        return product

    return multiply


def _pack_for_onednn(weight: Tensor, num_rows: int) -> Callable[[Tensor], Tensor]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), num_rows)

    def multiply(rows: Tensor) -> Tensor:
        rows = rows.to(weight.dtype)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
        return product

    return multiply


def _has_mkl() -> bool:
    return torch.backends.mkl.is_available()  # type: ignore[no-any-return, no-untyped-call]
