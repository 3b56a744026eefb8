"""Weighted averages of the same values in every step of a loop."""

# B batch, T queries of a step, S source length, C size of a value

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

_Steps = dict[int, tuple[int, Tensor, Tensor]]
"""Backward pass, weights (B, T, S) and gradients (B, T, C) of the averages, by call number."""


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
        step = _backward_pass(), weights, grad
        ctx.steps[ctx.call] = step  # type: ignore[attr-defined]
        return grad @ values.mT, None, grad.new_zeros(()), None, None


class _Values(Function):
    """A scalar 0, whose backward pass returns the gradient of the values over all steps."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, steps: _Steps) -> Tensor:
        ctx.steps = steps  # type: ignore[attr-defined]
        return values.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, _: Tensor) -> tuple[Tensor | None, ...]:
        steps: _Steps = ctx.steps  # type: ignore[attr-defined]
        # Other steps are from earlier passes, which did not need the gradient of the values.
        found = [steps[call][1:] for call in sorted(steps) if steps[call][0] == _backward_pass()]
        steps.clear()
        weights, grads = zip(*found, strict=True)
        return torch.cat(weights, dim=1).mT @ torch.cat(grads, dim=1), None


def _backward_pass() -> int:
    """Return the number of the backward pass that autograd is in."""
    return torch._C._current_graph_task_id()  # private, but torch.utils.checkpoint uses it too
