"""Dropout whose random numbers cost little on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 16
"""values of a 16-bit number; four are drawn at once"""


class Dropout(nn.Module):
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training.

    torch draws a number for each element on a CPU, which costs more than what is done with it;
    here one draw serves four, so that p is rounded to a multiple of 1 / 65536.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, inputs: Tensor) -> Tensor:
        """Drop elements of a tensor of any shape."""
        if not self.training or self.p == 0:
            return inputs
        if inputs.device.type != "cpu":
            return functional.dropout(inputs, self.p)
        num_dropped = min(round(self.p * _LEVELS), _LEVELS - 1)
        draws = inputs.new_empty(-(-inputs.numel() // 4), dtype=torch.int64)
        draws.random_(-(1 << 63), None)
        levels = draws.view(torch.int16)[: inputs.numel()].view(inputs.shape)  # from -32768
        # A factor of the inputs' own type: to multiply by booleans they would be converted first.
        factors = torch.ge(levels, num_dropped - _LEVELS // 2, out=torch.empty_like(inputs))
        return inputs * factors.mul_(_LEVELS / (_LEVELS - num_dropped))

    def extra_repr(self) -> str:
        """Return what stands within the parentheses of the module's text."""
        return f"p={self.p}"
