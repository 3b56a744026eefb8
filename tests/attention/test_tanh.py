import pytest
import torch
from torch.testing import assert_close

from seq2seq.attention.tanh import tanh_


def every_bf16():
    """Return all numbers of bf16."""
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(torch.bfloat16)
    return numbers[~numbers.isnan()]


def test_every_bf16_is_rounded_once():
    numbers = every_bf16()

    assert_close(tanh_(numbers.clone()), torch.tanh(numbers.double()).bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_types_are_left_to_torch(dtype):
    numbers = torch.linspace(-5, 5, 101, dtype=dtype)

    assert_close(tanh_(numbers.clone()), torch.tanh(numbers), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_gradients_are_those_of_torch(dtype):
    inputs = torch.linspace(-3, 3, 50).to(dtype).requires_grad_()
    weights = torch.linspace(1, 2, 50).to(dtype)

    found = torch.autograd.grad(tanh_(inputs * 1) @ weights, inputs)
    expected = torch.autograd.grad(torch.tanh(inputs) @ weights, inputs)

    assert_close(found, expected, rtol=0, atol=0)


def test_any_size_and_order_in_memory_will_do(monkeypatch):
    monkeypatch.setattr("seq2seq.attention.tanh._BLOCK", 5)
    numbers = torch.linspace(-3, 3, 24).bfloat16().view(4, 6).t()

    assert_close(tanh_(numbers.clone()), torch.tanh(numbers), rtol=0, atol=0)
    assert tanh_(numbers[:0]).shape == (0, 4)


def test_nan_stays_nan():
    assert tanh_(torch.tensor([float("nan")], dtype=torch.bfloat16)).isnan().all()
