"""Fast CPU kernels for single operations, and the switch to torch's operations."""

from enum import Enum


class Kernels(Enum):
    """The implementation of GRUs, contexts in a loop, tanh, dropout and the vocabulary loss."""

    fast = "fast"
    """This package's kernels."""
    plain = "plain"
    """torch's own operations: slower, and the reference that the kernels are tested against."""
