"""Weighted averages of the same values in every step of a loop."""

# B batch, T steps, S source length, C size of a value

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable


class StepAverages:
    """Computes weights @ values in each step of a loop, and the values' gradient after the loop.

    Autograd would compute a gradient of the size of all values in each step. Here each step adds
    zeros to its average instead. The gradient of the zeros is that of the average, so one product
    with the weights of all steps gives the gradient of the values.

    Args:
        values: Values, (B, S, C).
        num_steps: Number of steps, T.
    """

    def __init__(self, values: Tensor, *, num_steps: int) -> None:
        self._values = values
        self._weights: list[Tensor] = []
        zeros: Tensor = _Zeros.apply(values, num_steps, self._weights)  # type: ignore[no-untyped-call]
        self._zeros = iter(zeros.unbind(1))

    def __call__(self, weights: Tensor) -> Tensor:
        """Average with the weights of the next step: (B, 1, S) -> (B, 1, C)."""
        zeros = next(self._zeros, None) if weights.shape[1] == 1 else None
        if zeros is None:  # several queries or averages in a step
            return weights @ self._values
        self._weights.append(weights.detach())
        return torch.baddbmm(zeros.unsqueeze(1), weights, self._values.detach())


class _Zeros(Function):
    """Zeros (B, T, C); the gradient of the values is the product of the weights and theirs."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, num_steps: int, weights: list[Tensor]) -> Tensor:
        ctx.weights = weights  # type: ignore[attr-defined]  # filled by the steps
        return values.new_zeros(values.shape[0], num_steps, values.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = torch.cat(ctx.weights, dim=1)  # type: ignore[attr-defined]
        return weights.mT @ grad[:, : weights.shape[1]], None, None
