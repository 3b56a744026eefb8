import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda

from seq2seq.runtime.transfer import copy_to_device

TENSORS = [
    torch.arange(7).view(7, 1),
    torch.tensor([[True, False, True]]),
    torch.rand(2, 3, generator=torch.Generator().manual_seed(1)),
    torch.empty(0, dtype=torch.int64),
    torch.arange(6).view(2, 3).t(),
]


@pytest.mark.parametrize("number", range(1, len(TENSORS) + 1))
def test_copies_are_equal(number):
    with pretend_cuda():
        moved = copy_to_device(TENSORS[:number], CUDA)

        for copy, original in zip(moved, TENSORS, strict=False):
            assert copy.is_cuda
            assert copy.dtype == original.dtype
            torch.testing.assert_close(copy.cpu(), original, rtol=0, atol=0)


def test_one_copy_moves_all_and_the_host_does_not_wait():
    with pretend_cuda() as cuda:
        copy_to_device(TENSORS, CUDA)

        assert [name for name, _ in cuda.operations].count("aten._to_copy.default") == 1
        assert not cuda.syncs


def test_parts_begin_at_multiples_of_16_bytes():
    with pretend_cuda():
        moved = copy_to_device(TENSORS, CUDA)

        assert [each.held.storage_offset() * each.element_size() % 16 for each in moved] == [0] * 5
