"""The test double for CUDA finds what it is made to find."""

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from torch import nn


@pytest.fixture
def cuda():
    with pretend_cuda() as cuda:
        yield cuda


def test_a_cpu_tensor_beside_cuda_tensors_fails(cuda):
    with pytest.raises(AssertionError, match=r"a CPU tensor of shape \(3,\) beside CUDA tensors"):
        torch.ones(3).to(CUDA) + torch.ones(3)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.tolist(),
        lambda x: x.sum().item(),
        lambda x: bool((x > 1).any()),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[x > 1],
        lambda x: torch.where(x > 1, x, torch.tensor(0.0)),
        lambda x: x[torch.tensor([1])],
        lambda x: torch.tensor([1.0], device=x.device),
        lambda x: torch.ones(1).to(x.device),
        lambda x: torch.ones(1).pin_memory().to(x.device),
        lambda x: torch.ones(1).to(x.device, non_blocking=True),
        lambda x: x.copy_(torch.ones(3)),
    ],
)
def test_every_kind_of_wait_is_counted(cuda, wait):
    x = torch.arange(3.0).to(CUDA)
    cuda.waits.clear()

    wait(x)

    assert cuda.waits == {"": 1}


def test_work_on_the_device_computes_and_makes_nobody_wait(cuda):
    layer = cuda.move(nn.Linear(3, 2))
    rows = torch.ones(4, 3).pin_memory().to(CUDA, non_blocking=True)
    cuda.waits.clear()

    layer(rows).masked_fill(layer(rows) > 9, 0.0).sum().backward()

    assert not cuda.waits
    torch.testing.assert_close(layer.weight.grad.cpu(), torch.full((2, 3), 4.0))
