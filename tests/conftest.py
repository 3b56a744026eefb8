"""Fixtures of all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from seq2seq.kernels import Kernels, use_kernels

# A test's result does not depend on the speed of the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _fast_kernels() -> Iterator[None]:
    """Undo a choice of kernels, which holds for the whole process."""
    yield
    use_kernels(Kernels.fast)
