"""Fixtures of all tests."""

from collections.abc import Iterator

import pytest

from seq2seq.kernels.switch import Kernels, use_kernels


@pytest.fixture(autouse=True)
def _fast_kernels() -> Iterator[None]:
    """Undo a choice of kernels, which holds for the whole process."""
    yield
    use_kernels(Kernels.fast)
