"""The test double for CUDA finds what it is made to find."""

import pytest
import torch
from pretend_cuda import CUDA, DeviceMismatchError, pretend_cuda
from torch import nn

from seq2seq.attention.normalizers import masked_softmax
from seq2seq.search.config import GreedyConfig
from seq2seq.search.interface import length_limits


@pytest.fixture
def cuda():
    with pretend_cuda() as cuda:
        yield cuda


def test_tensors_say_that_they_are_on_cuda_and_compute(cuda):
    x = torch.arange(3.0).to(CUDA).requires_grad_()

    (x.square() * 2).sum().backward()

    assert x.is_cuda and x.device == CUDA and x.grad.device == CUDA
    torch.testing.assert_close(x.grad.cpu(), torch.tensor([0.0, 4.0, 8.0]))


def test_a_cpu_tensor_beside_cuda_tensors_fails(cuda):
    scores = torch.zeros(2, 1, 3).to(CUDA)

    with pytest.raises(DeviceMismatchError, match=r"shape \(2, 1, 3\).* at attention/normalizers"):
        masked_softmax(scores, torch.ones(2, 3, dtype=torch.bool))


def test_data_that_would_not_reach_the_numbers_is_refused(cuda):
    x = nn.Parameter(torch.zeros(3).to(CUDA))

    with pytest.raises(NotImplementedError, match="copy into it"):
        x.data = torch.ones(3).to(CUDA)
    x.data.add_(1)
    assert x.tolist() == [1, 1, 1]


def test_a_sync_is_recorded_with_its_line(cuda):
    mask = torch.ones(2, 3, dtype=torch.bool).to(CUDA)
    cuda.clear()

    length_limits(mask, GreedyConfig())

    [(line, count)] = cuda.syncs.items()
    assert count == 1
    assert line.startswith("search/interface.py: return [config.longest(length)")
    assert line.endswith("[tolist]")
    assert list(cuda.lines) == [f"search/interface.py:{length_limits.__code__.co_firstlineno + 2}"]


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: bool((x > 1).any()), "_local_scalar_dense"),
        (lambda x: x.cpu(), "copy to the CPU"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 1], "boolean index"),
        (lambda x: torch.where(x > 1, x, torch.tensor(0.0)), "number from the CPU"),
        (lambda x: x[torch.tensor([1])], "index from the CPU"),
        (lambda x: torch.tensor([1.0], device=x.device), "pageable copy"),
        (lambda x: torch.ones(1).to(x.device), "pageable copy"),
        (lambda x: torch.ones(1).pin_memory().to(x.device), "pageable copy"),
        (lambda x: torch.ones(1).to(x.device, non_blocking=True), "pageable copy"),
        (lambda x: x.copy_(torch.ones(3)), "copy between devices"),
    ],
)
def test_every_kind_of_wait_is_counted(cuda, wait, reason):
    x = torch.arange(3.0).to(CUDA)
    cuda.clear()

    wait(x)

    assert dict(cuda.syncs) == {f"outside of seq2seq:  [{reason}]": 1}


def test_work_on_the_device_makes_nobody_wait(cuda):
    layer = cuda.move(nn.Linear(3, 2))
    rows = torch.ones(4, 3).pin_memory().to(CUDA, non_blocking=True)
    cuda.clear()

    layer(rows).masked_fill(layer(rows) > 0, 0.0).sum().backward()

    assert not cuda.syncs
    assert ("aten.addmm.default", ((2,), (4, 3), (3, 2))) in cuda.operations


def test_autocast_multiplies_in_low_precision_and_sums_in_fp32(cuda):
    rows = torch.ones(4, 3).to(CUDA)

    with torch.autocast("cuda", dtype=torch.bfloat16):
        product = rows @ rows.t()
        weights = product.softmax(-1)

    assert product.dtype == torch.bfloat16 and weights.dtype == torch.float32


def test_nothing_stays_behind():
    with pretend_cuda():
        pass

    assert not torch.cuda.is_available()
    with torch.inference_mode():
        assert torch.ones(1).is_inference()
