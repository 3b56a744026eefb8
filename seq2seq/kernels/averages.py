"""Weighted averages of the same values in every step of a loop."""

# B batch, T queries of a step, S source length, C size of a value

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

_Steps = dict[int, tuple[Tensor, Tensor]]
"""Weights (B, T, S) and gradients (B, T, C) of the averages, by call number."""


class StepAverages:
    """Computes weights @ values in each step of a loop, and the values' gradient after the loop.

    Autograd would compute a gradient of the size of all values in each step, and add them up. Here
    the backward pass of a step only keeps its weights and its gradient. Every step also depends on
    one scalar. The scalar's backward pass comes last, and does all products at once.

    Args:
        values: Values, (B, S, C).
    """

    def __init__(self, values: Tensor) -> None:
        self._values = values.detach()
        self._num_calls = 0
        self._steps: _Steps = {}
        self._scalar: Tensor = _Values.apply(values, self._steps)  # type: ignore[no-untyped-call]

    def __call__(self, weights: Tensor) -> Tensor:
        """Average with the weights of a step: (B, T, S) -> (B, T, C)."""
        self._num_calls += 1
        average: Tensor = _Average.apply(  # type: ignore[no-untyped-call]
            weights, self._values, self._scalar, self._num_calls, self._steps
        )
        return average


class _Average(Function):
    """weights @ values; `_Values` computes the gradient of the values."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, weights: Tensor, values: Tensor, scalar: Tensor, call: int, steps: _Steps
    ) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.call, ctx.steps = call, steps  # type: ignore[attr-defined]
        return weights @ values

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, values = ctx.saved_tensors  # type: ignore[attr-defined]  # checks for changes
        steps: _Steps = ctx.steps  # type: ignore[attr-defined]
        call: int = ctx.call  # type: ignore[attr-defined]
        steps.pop(call, None)  # a new entry is the last one
        steps[call] = weights, grad
        return grad @ values.mT, None, grad.new_ones((), dtype=torch.float32), None, None


class _Values(Function):
    """A scalar 0, whose backward pass returns the gradient of the values over all steps.

    The gradient of the scalar is the number of steps in this backward pass.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, steps: _Steps) -> Tensor:
        ctx.steps = steps  # type: ignore[attr-defined]
        return values.new_zeros((), dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, num_steps: Tensor) -> tuple[Tensor | None, ...]:
        steps: _Steps = ctx.steps  # type: ignore[attr-defined]
        # Earlier entries are from passes that did not need the gradient of the values.
        calls = sorted(list(steps)[-int(num_steps) :])
        weights, grads = zip(*(steps[call] for call in calls), strict=True)
        steps.clear()
        return torch.cat(weights, dim=1).mT @ torch.cat(grads, dim=1), None
