"""The hyperbolic tangent, fast in every precision."""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

_BLOCK = 1 << 18
"""numbers whose fp32 stays in the cache between the two conversions"""


def tanh_(inputs: Tensor) -> Tensor:
    """Return torch.tanh of a tensor of any shape, which may take the place of the inputs.

    On a CPU torch's own takes in bf16 five times as long as in fp32, so that two conversions pay.
    """
    if inputs.device.type != "cpu" or inputs.dtype != torch.bfloat16:
        return inputs.tanh_()
    result: Tensor = _Tanh.apply(inputs)  # type: ignore[no-untyped-call]
    return result


class _Tanh(Function):
    """tanh by way of fp32; what is kept for the gradient is of the inputs' type."""

    @staticmethod
    def forward(ctx: FunctionCtx, inputs: Tensor) -> Tensor:
        result = torch.empty_like(inputs, memory_format=torch.contiguous_format)
        flat = (each.view(-1) for each in (inputs.contiguous(), result))
        parts = (torch.split(each, _BLOCK) for each in flat)
        for part, target in zip(*parts, strict=True):
            target.copy_(part.float().tanh_())
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return torch.ops.aten.tanh_backward(grad, result)  # type: ignore[no-any-return]
