"""Products with one matrix in a loop, and the choice between the fast kernels and torch's own.

The matrix is packed once, and its gradients are summed after the loop.
"""

# M rows, I input, O output

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

logger = logging.getLogger(__name__)


class Kernels(Enum):
    """The implementation of GRU sequences, dropout, products in loops and the vocabulary loss."""

    fast = "fast"
    """This package's kernels."""
    plain = "plain"
    """torch's own operations: slower, and the reference that the kernels are tested against."""


_chosen: Kernels | None = None
"""None until the first use."""


def use_kernels(kernels: Kernels) -> None:
    """Choose the kernels of this process, as `torch.backends` flags do.

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
    """Use kernels in a context, and the previous ones after it."""
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
    required: list[tuple[object, str]] = [(torch._C, "_current_graph_task_id")]
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        required += [(torch.ops.mkl, "_mkl_linear"), (torch.ops.mkl, "_mkl_reorder_linear_weight")]
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        required += [
            (torch.ops.mkldnn, name)
            for name in ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")
        ]
    return [name for owner, name in required if not hasattr(owner, name)]


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
        has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        if weight.dtype == torch.float32 and has_mkl:
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


_MATMULS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)
_VIEWS = (Tensor.mT.__get__, Tensor.view, Tensor.transpose)  # type: ignore[attr-defined]


class LoopGradients(TorchFunctionMode):
    """A context in which the gradients of a loop's products with constants are computed at once.

    For a product y_t = x_t M at each of T steps, autograd computes T small products x_t^T g_t,
    where g_t is the gradient of y_t, and T additions to a gradient as large as M. Their sum is
    the single product X^T G of the stacked x_t and g_t. In this context the backward pass of a
    step returns g_t M^T and stores the pair (x_t, g_t); after the last step one product computes
    the gradient of M. The result differs from that of the plain loop only in the order of
    additions. M is a parameter or one of the given constants, such as the values that attention
    averages. The code of a step is unaware of the context, so every attention type gains.

    A gradient computed this way cannot be differentiated again.
    """

    def __init__(self, *constants: Tensor, num_steps: int) -> None:
        """Enter a loop.

        Args:
            constants: Tensors, besides parameters, that are the same in every step.
            num_steps: Number of steps.
        """
        super().__init__()
        self._num_steps = num_steps
        self._constants = {id(each): each for each in constants}
        self._views: dict[tuple[object, ...], Tensor] = {}
        self._factors: dict[tuple[Tensor, Tensor | None, torch.dtype], _Factor] = {}

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[Tensor, ...] = (),
        kwargs: Mapping[str, Tensor] | None = None,
    ) -> object:
        """Replace products with constants; pass every other call through."""
        if not torch.is_grad_enabled() or not kernels_are_fast():
            return func(*args, **(kwargs or {}))
        if func is functional.linear:
            return self._linear(*args, **(kwargs or {}))
        if not kwargs and len(args) > 1 and func in _MATMULS and id(args[1]) in self._constants:
            return self._matmul(*args)
        if not kwargs and args and func in _VIEWS and id(args[0]) in self._constants:
            return self._view(func, *args)
        return func(*args, **(kwargs or {}))

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        # Callers of `functional.linear` may use these names as keywords.
        num_rows = math.prod(input.shape[:-1])
        # Stacking the rows must cost less than adding a gradient per step.
        is_long = weight.numel() < num_rows * sum(weight.shape)
        if is_long or not weight.requires_grad or not _are_of_one_type(input, weight):
            return functional.linear(input, weight, bias)
        rows = input.reshape(num_rows, input.shape[-1])
        product = self._factor(self._view(Tensor.t, weight), bias, rows).product(rows)
        return product.view(*input.shape[:-1], weight.shape[0])

    def _matmul(self, rows: Tensor, matrix: Tensor) -> Tensor:
        # Stacked rows must belong to one matrix each; broadcasting would break that.
        is_alike = rows.dim() == matrix.dim() > 1 and rows.shape[:-2] == matrix.shape[:-2]
        if not is_alike or not _are_of_one_type(rows, matrix):
            return rows @ matrix
        return self._factor(matrix, None, rows).product(rows)

    def _view(self, func: Callable[..., object], constant: Tensor, *args: object) -> Tensor:
        """Return a view of a constant; it is a constant too, and the same object in every step."""
        key = (func, id(constant), repr(args))
        if key not in self._views:
            view = func(constant, *args)
            assert isinstance(view, Tensor)
            self._views[key] = view
            # Keep the tensors alive: `id` of a freed one may be reused.
            self._constants |= {id(constant): constant, id(view): view}
        return self._views[key]

    def _factor(self, matrix: Tensor, bias: Tensor | None, rows: Tensor) -> "_Factor":
        key = (matrix, bias, product_dtype(matrix))
        if key not in self._factors:
            self._factors[key] = _Factor(matrix, bias, rows, num_steps=self._num_steps)
        return self._factors[key]


def _are_of_one_type(rows: Tensor, matrix: Tensor) -> bool:
    """Return whether torch multiplies these: only autocast converts types."""
    return rows.dtype == matrix.dtype or product_dtype(rows) == product_dtype(matrix)


class _Factor:
    """A constant matrix M and a bias, and the pairs that the steps store for them."""

    def __init__(
        self, matrix: Tensor, bias: Tensor | None, rows: Tensor, *, num_steps: int
    ) -> None:
        self.pairs: list[_Pair | None] = []
        self._dtype = product_dtype(matrix)
        self._uses = {"num_rows": rows.shape[0], "num_uses": num_steps}
        self.matrix, self.bias = _Constant.apply(  # type: ignore[no-untyped-call]
            matrix.to(self._dtype), bias, self.pairs
        )
        self.multiply = self._ready(self.matrix.detach())
        self._multiply_back: Callable[[Tensor], Tensor] | None = None

    def product(self, rows: Tensor) -> Tensor:
        """Return x M + b."""
        self.pairs.append(None)
        place = len(self.pairs) - 1
        product: Tensor = _Product.apply(  # type: ignore[no-untyped-call]
            rows.to(self._dtype), self.matrix, self.bias, self, place
        )
        return product

    def multiply_back(self, grad: Tensor) -> Tensor:
        """Return g M^T."""
        if self._multiply_back is None:
            self._multiply_back = self._ready(self.matrix.detach().mT)
        return self._multiply_back(grad)

    def _ready(self, matrix: Tensor) -> Callable[[Tensor], Tensor]:
        if matrix.dim() == 2:
            return product_with(matrix.mT, **self._uses)
        return lambda rows: rows @ matrix


class _Pair(NamedTuple):
    """The factors of one step's gradient."""

    backward: int  # id of the backward pass; one without a gradient of M leaves pairs behind
    rows: Tensor
    grad: Tensor


class _Constant(Function):
    """The identity on a constant; its backward runs after every step has stored its pair."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, matrix: Tensor, bias: Tensor | None, pairs: list[_Pair | None]
    ) -> tuple[Tensor, Tensor | None]:
        ctx.pairs = pairs  # type: ignore[attr-defined]
        ctx.is_transposed = not matrix.is_contiguous()  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix), None if bias is None else bias.view_as(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        kept: list[_Pair | None] = ctx.pairs  # type: ignore[attr-defined]
        this = torch._C._current_graph_task_id()
        pairs = [pair for pair in kept if pair is not None and pair.backward == this]
        kept[:] = [None] * len(kept)  # a graph may outlive its backward pass
        rows = torch.cat([pair.rows for pair in pairs], dim=-2)
        grads = torch.cat([pair.grad for pair in pairs], dim=-2)
        needs_bias: bool = ctx.needs_input_grad[1]  # type: ignore[attr-defined]
        # The gradient gets the memory layout of the constant.
        is_transposed: bool = ctx.is_transposed  # type: ignore[attr-defined]
        matrix_grad = (grads.mT @ rows).mT if is_transposed else rows.mT @ grads
        return matrix_grad, grads.sum(0) if needs_bias else None, None


class _Product(Function):
    """x M + b of one step; its backward returns the gradient of x and stores the pair."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        rows: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        factor: _Factor,
        place: int,
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.factor, ctx.place = factor, place  # type: ignore[attr-defined]
        product = factor.multiply(rows)
        return product if bias is None else product.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors  # type: ignore[attr-defined]
        factor: _Factor = ctx.factor  # type: ignore[attr-defined]
        needs: tuple[bool, ...] = ctx.needs_input_grad  # type: ignore[attr-defined]
        if needs[1]:  # it does if the bias does
            # Attached rows would keep alive the graph that keeps the pair.
            pair = _Pair(torch._C._current_graph_task_id(), rows.detach(), grad)
            factor.pairs[ctx.place] = pair  # type: ignore[attr-defined]
        return factor.multiply_back(grad) if needs[0] else None, None, None, None, None
