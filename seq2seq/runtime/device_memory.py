"""Report that the memory of a GPU is too small, and choose how training reacts."""

import contextlib
from collections.abc import Iterator
from enum import Enum


class OnOutOfMemory(Enum):
    """Reaction of training to a batch that does not fit into the memory of a GPU."""

    stop = "stop"
    """End the training with an error; last.pt has not changed."""
    skip = "skip"
    """Make no update of this batch, and go on with the next one."""


class DeviceMemoryError(MemoryError):
    """A batch or a model does not fit into the memory of a GPU."""


@contextlib.contextmanager
def naming_batch(batch: str, way_out: str) -> Iterator[None]:
    """Return a context that says what did not fit if the memory of a GPU is too small.

    Args:
        batch: What is computed, for example `3 sentences`.
        way_out: What to do if it does not fit.

    Raises:
        DeviceMemoryError: Memory is too small.
    """
    # Imported here because the scores of files need the error above, but no torch.
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        text = f"the memory of a GPU is too small for {batch}; {way_out}"
        raise DeviceMemoryError(text) from error
