"""tanh and dropout in forms that are cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.kernels.products import kernels_are_fast

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
