"""The choice of what training does when the memory of a GPU is too small."""

from enum import Enum


class OnOutOfMemory(Enum):
    """What training does when a batch does not fit into the memory of a GPU."""

    stop = "stop"
    skip = "skip"
    """Make no update of this batch, and go on with the next one."""


class DeviceMemoryError(MemoryError):
    """A batch does not fit into the memory of a GPU; the weights are those before the update."""
