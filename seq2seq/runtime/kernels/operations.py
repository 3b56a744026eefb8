"""Products, dropout, tanh and the largest values of rows in forms that are cheap on a CPU, and the
choice between fast kernels and torch's operations."""

# M rows, I input, O output; B rows, V or M values of each, W parts of a row

import contextlib
import logging
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.runtime.kernels import Kernels

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


_LEVELS = 1 << 16
"""Number of values of a 16-bit integer."""


class Dropout(nn.Dropout):
    """Zero each element with probability p and scale the others by 1 / (1 - p) in training.

    On a CPU torch draws a random number for each element, which costs more than the rest of the
    operation. This module draws one 64-bit number for four elements and rounds p to a multiple of
    1 / 65536.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Drop elements of a tensor of any shape."""
        if not self.training or self.p == 0:
            return inputs
        if inputs.device.type != "cpu" or not kernels_are_fast():
            return functional.dropout(inputs, self.p)
        num_dropped = min(round(self.p * _LEVELS), _LEVELS - 1)
        draws = inputs.new_empty(-(-inputs.numel() // 4), dtype=torch.int64)
        draws.random_(-(1 << 63), None)
        levels = draws.view(torch.int16)[: inputs.numel()].view(inputs.shape)
        # The levels are uniform from -32768 to 32767. The factors have the type of the inputs;
        # booleans would be converted before the product.
        factors = torch.ge(levels, num_dropped - _LEVELS // 2, out=torch.empty_like(inputs))
        return inputs * factors.mul_(_LEVELS / (_LEVELS - num_dropped))


def tanh_(inputs: Tensor) -> Tensor:
    """Return tanh and overwrite the inputs; without gradients, the result is in their memory.

    On a CPU torch's tanh takes about ten times as long as its sigmoid, so this computes
    2 sigmoid(2 x) - 1. The absolute error is below 2e-7 in fp32; results near 0 lose relative
    precision.
    """
    if inputs.device.type != "cpu" or not kernels_are_fast():
        return inputs.tanh_()
    sigmoid = inputs.mul_(2).sigmoid_()
    # The backward pass needs the sigmoid unchanged.
    doubled = sigmoid.mul(2) if sigmoid.requires_grad else sigmoid.mul_(2)
    return doubled.sub_(1)


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
