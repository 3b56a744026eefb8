import pytest
import torch
from tiny_graphs import node_counts, random
from torch.testing import assert_close

from seq2seq.kernels import Kernels
from seq2seq.kernels.products import use_kernels
from seq2seq.kernels.tanh import tanh_


@pytest.mark.parametrize("kernels", Kernels)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tanh_and_its_gradient(kernels, dtype):
    use_kernels(kernels)
    inputs = random(1000, seed=0, dtype=dtype)
    extremes = torch.tensor([-torch.inf, -200.0, -1e-4, 0.0, 1e-4, 200.0, torch.inf], dtype=dtype)
    close = {"rtol": 0, "atol": 1e-15 if dtype == torch.float64 else 2e-7}

    found = tanh_(inputs * 5)

    assert ("TanhBackward0" in node_counts(found)) == (kernels is Kernels.plain)
    expected = torch.tanh(inputs.double() * 5)
    assert_close(found.double(), expected, **close)
    factors = random(1000, seed=1).detach()
    [slopes] = torch.autograd.grad((found * factors.to(dtype)).sum(), inputs)
    [true] = torch.autograd.grad((expected * factors).sum(), inputs)
    assert_close(
        slopes.double(), true.double(), rtol=0, atol=1e-14 if dtype == torch.float64 else 1e-5
    )
    assert_close(tanh_(extremes.clone()), torch.tanh(extremes), **close)


def test_without_gradients_tanh_replaces_its_inputs():
    inputs = torch.randn(3, 4)
    expected = torch.tanh(inputs)

    tanh_(inputs)

    assert_close(inputs, expected)
