"""tanh that is cheap on a CPU."""

from torch import Tensor

from seq2seq.kernels.products import kernels_are_fast


def tanh_(inputs: Tensor) -> Tensor:
    """Return tanh of the inputs, which it overwrites; without gradients in place.

    On a CPU torch's tanh takes about ten times as long as its sigmoid, so this computes
    2 sigmoid(2 x) - 1. The absolute error is below 2e-7 in fp32; results near 0 lose relative
    precision.
    """
    if inputs.device.type != "cpu" or not kernels_are_fast():
        return inputs.tanh_()
    sigmoid = inputs.mul_(2).sigmoid_()
    # A backward pass reads the sigmoid.
    doubled = sigmoid.mul(2) if sigmoid.requires_grad else sigmoid.mul_(2)
    return doubled.sub_(1)
