"""Fixtures of all tests."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

from seq2seq.kernels import Kernels, use_kernels

# A test's result does not depend on the speed of the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _state_of_the_process() -> Iterator[None]:
    """Undo a choice of kernels, and the service's silence of warnings about single texts."""
    yield
    use_kernels(Kernels.fast)
    logging.getLogger("seq2seq.inference").setLevel(logging.NOTSET)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest modules first, so that no process works on one when all others are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name != "test_readme.py", item.path not in slow))
