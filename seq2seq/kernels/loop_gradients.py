"""Products with what stays the same at every step of a loop, and their gradients at its end."""

# I input, O output, R rows

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from seq2seq.kernels.packed_matmul import product_dtype, product_with

_MATMULS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)
_VIEWS = (Tensor.mT.__get__, Tensor.view, Tensor.transpose)  # type: ignore[attr-defined]


class LoopProducts(TorchFunctionMode):
    """Within this context, a loop's products with constants have their gradients summed at once.

    A product y_t = x_t M that a recurrence makes at T steps costs autograd T small products
    x_t^T g_t, with g_t the gradient of y_t, and T additions to a gradient as large as M. Their
    sum is the one product X^T G of the stacked x_t and g_t. So within this context the backward
    of a step only hands on g_t M^T and keeps the pair (x_t, g_t); when every step has done so,
    one product makes the gradient of M: the values of the plain loop, in another order of
    addition. M is a parameter, or what the loop was told to be constant, as the values that
    attention mixes. The code of a step need not know, so that an attention type written tomorrow
    gains as well.

    A gradient computed this way cannot be differentiated again.
    """

    def __init__(self, *constants: Tensor, num_steps: int) -> None:
        """Take tensors, beside parameters, that stay the same in each of so many steps."""
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
        """Take over products with constants; leave every other call as it is."""
        if not torch.is_grad_enabled():  # what is kept for later would have no gradient
            return func(*args, **(kwargs or {}))
        if func is functional.linear:
            return self._linear(*args, **(kwargs or {}))
        if not kwargs and len(args) > 1 and func in _MATMULS and id(args[1]) in self._constants:
            return self._matmul(*args)
        if not kwargs and args and func in _VIEWS and id(args[0]) in self._constants:
            return self._view(func, *args)
        return func(*args, **(kwargs or {}))

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        # The names are those of `functional.linear`, whose callers may use them as keywords.
        num_rows = math.prod(input.shape[:-1])
        # Stacking costs what the rows are long; that must be less than a gradient to add.
        is_long = weight.numel() < num_rows * sum(weight.shape)
        if is_long or not weight.requires_grad or not _are_of_one_type(input, weight):
            return functional.linear(input, weight, bias)
        rows = input.reshape(num_rows, input.shape[-1])
        product = self._factor(self._view(Tensor.t, weight), bias, rows).product(rows)
        return product.view(*input.shape[:-1], weight.shape[0])

    def _matmul(self, rows: Tensor, matrix: Tensor) -> Tensor:
        # Stacked rows of one step must be rows of one matrix each, which torch might repeat.
        is_alike = rows.dim() == matrix.dim() > 1 and rows.shape[:-2] == matrix.shape[:-2]
        if not is_alike or not _are_of_one_type(rows, matrix):
            return rows @ matrix
        return self._factor(matrix, None, rows).product(rows)

    def _view(self, func: Callable[..., object], constant: Tensor, *args: object) -> Tensor:
        """Return a view of a constant, which is a constant itself and the same at every step."""
        key = (func, id(constant), repr(args))
        if key not in self._views:
            view = func(constant, *args)
            assert isinstance(view, Tensor)
            self._views[key] = view
            # Held, since the number of a freed tensor is given again.
            self._constants |= {id(constant): constant, id(view): view}
        return self._views[key]

    def _factor(self, matrix: Tensor, bias: Tensor | None, rows: Tensor) -> "_Factor":
        key = (matrix, bias, product_dtype(matrix))
        if key not in self._factors:
            self._factors[key] = _Factor(matrix, bias, rows, num_steps=self._num_steps)
        return self._factors[key]


def _are_of_one_type(rows: Tensor, matrix: Tensor) -> bool:
    """Say whether torch multiplies these: it converts nothing but what autocast does."""
    return rows.dtype == matrix.dtype or product_dtype(rows) == product_dtype(matrix)


class _Factor:
    """A constant matrix M and a bias behind `_Constant`, and what the steps leave for them."""

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
    """What a step leaves in a backward."""

    backward: int  # its number; one that asks for no gradient of M leaves pairs behind
    rows: Tensor
    grad: Tensor


class _Constant(Function):
    """Stand between constant and loop: backward runs when every step has left its pair."""

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
        kept[:] = [None] * len(kept)  # a graph may outlive its backward
        rows = torch.cat([pair.rows for pair in pairs], dim=-2)
        grads = torch.cat([pair.grad for pair in pairs], dim=-2)
        needs_bias: bool = ctx.needs_input_grad[1]  # type: ignore[attr-defined]
        # Either way the gradient lies in memory as the constant does.
        is_transposed: bool = ctx.is_transposed  # type: ignore[attr-defined]
        matrix_grad = (grads.mT @ rows).mT if is_transposed else rows.mT @ grads
        return matrix_grad, grads.sum(0) if needs_bias else None, None


class _Product(Function):
    """One step's x M + b: hands on the gradient of x and keeps the rest."""

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
        if needs[1]:  # which it does wherever the bias needs one
            # Detached: rows with their history would keep alive the graph that keeps the pair.
            pair = _Pair(torch._C._current_graph_task_id(), rows.detach(), grad)
            factor.pairs[ctx.place] = pair  # type: ignore[attr-defined]
        return factor.multiply_back(grad) if needs[0] else None, None, None, None, None
