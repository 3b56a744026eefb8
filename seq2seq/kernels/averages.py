"""Weighted averages of the same values in every step of a loop."""

# B batch, T steps, S source length, C size of a value

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable


class StepAverages:
    """Computes weights @ values in each step of a loop, and the values' gradient after the loop.

    Autograd would compute a gradient of the size of all values in each step, and add them up. Here
    a step passes the gradient of its average to a row of `_Rows`, whose backward pass multiplies
    the weights of all steps by the gradients of all rows at once.

    Args:
        values: Values, (B, S, C).
        num_steps: Number of steps, T.
    """

    def __init__(self, values: Tensor, *, num_steps: int) -> None:
        self._values = values
        self._weights: list[Tensor] = []
        rows: Tensor = _Rows.apply(values, num_steps, self._weights)  # type: ignore[no-untyped-call]
        self._rows = iter(rows.unbind(1))

    def __call__(self, weights: Tensor) -> Tensor:
        """Average with the weights of the next step: (B, 1, S) -> (B, 1, C)."""
        row = next(self._rows, None) if weights.shape[1] == 1 else None
        if row is None:  # several queries or averages in a step
            return weights @ self._values
        self._weights.append(weights.detach())
        average: Tensor = _Average.apply(weights, self._values.detach(), row)  # type: ignore[no-untyped-call]
        return average


class _Average(Function):
    """weights @ values; the row (B, C) gets the same gradient as the average (B, 1, C)."""

    @staticmethod
    def forward(ctx: FunctionCtx, weights: Tensor, values: Tensor, row: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values)
        return weights @ values

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        _, values = ctx.saved_tensors  # type: ignore[attr-defined]  # checks both for changes
        return grad @ values.mT, None, grad.squeeze(1)


class _Rows(Function):
    """A row for each step, (B, T, C), that only takes gradients."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, num_steps: int, weights: list[Tensor]) -> Tensor:
        ctx.weights = weights  # type: ignore[attr-defined]  # the steps fill it
        return values.new_zeros(()).expand(values.shape[0], num_steps, values.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = torch.cat(ctx.weights, dim=1)  # type: ignore[attr-defined]
        return weights.mT @ grad[:, : weights.shape[1]], None, None
