"""Repeated products with one matrix, and the choice between fast kernels and torch's operations."""

# M rows, I input, O output

import contextlib
import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from seq2seq.kernels import Kernels

logger = logging.getLogger(__name__)


_chosen: Kernels | None = None
"""Chosen kernels; None until the first use."""


def use_kernels(kernels: Kernels) -> None:
    """Choose the kernels of the whole process, like a flag of `torch.backends`.

    The fast kernels call private functions of torch. If this torch lacks one, a warning names it
    and the plain operations are used.
    """
    global _chosen
    if kernels is Kernels.fast and (missing := _missing_functions()):
        logger.warning(
            "torch %s lacks %s; this run uses kernels=plain, which is slower",
            torch.__version__,
            ", ".join(missing),
        )
        kernels = Kernels.plain
    _chosen = kernels


@contextlib.contextmanager
def kernels_in_use(kernels: Kernels) -> Iterator[None]:
    """Use kernels in a context, and the previous kernels after it."""
    global _chosen
    previous = _chosen
    use_kernels(kernels)
    try:
        yield
    finally:
        _chosen = previous


def kernels_are_fast() -> bool:
    """Return whether the fast kernels are in use; they are unless `use_kernels` was called."""
    if _chosen is None:
        use_kernels(Kernels.fast)
    return _chosen is Kernels.fast


def _missing_functions() -> list[str]:
    """Name the private functions of torch that the kernels call and this torch lacks."""
    required: list[tuple[object, str]] = []
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        required += [(torch.ops.mkl, "_mkl_linear"), (torch.ops.mkl, "_mkl_reorder_linear_weight")]
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        required += [
            (torch.ops.mkldnn, name)
            for name in ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")
        ]
    return [name for owner, name in required if not hasattr(owner, name)]


_WORTH_PACKING = 4
"""Number of uses from which packing pays; it costs about one product and makes each product a
quarter faster (measured)."""


def product_with(weight: Tensor, *, num_rows: int, num_uses: int) -> Callable[[Tensor], Tensor]:
    """Return a function that computes x W^T for x (M, I), prepared for many uses.

    MKL and, in bf16, oneDNN multiply faster by a matrix stored in the order in which they read
    it. Packing pays only if there are many products, each with few rows.

    Args:
        weight: W, (O, I).
        num_rows: M, the same in every use.
        num_uses: Approximate number of uses.
    """
    # The product of a single row reads the matrix only once, so its order does not matter.
    is_worth_packing = num_rows > 1 and num_uses >= _WORTH_PACKING
    if is_worth_packing and weight.device.type == "cpu" and kernels_are_fast():
        is_float = weight.dtype == torch.float32
        if is_float and _onednn_multiplies_float():
            return _pack_for_onednn(weight, num_rows)
        if is_float and torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
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


def _onednn_multiplies_float() -> bool:
    """Return whether torch leaves fp32 products to oneDNN; see `runtime.numerics`."""
    settings = getattr(torch.backends.mkldnn, "matmul", None)  # new in torch 2.9
    return settings is not None and settings.fp32_precision == "bf16"


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
