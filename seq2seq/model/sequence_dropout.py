"""Dropout whose mask is the same at every step of a sequence (Gal and Ghahramani 2016)."""

# R rows, E embedding, H hidden, F readout, L layers

from enum import Enum
from typing import NamedTuple

from torch import Tensor


class DropoutMode(Enum):
    """Number of masks that dropout draws for a sequence."""

    step = "step"
    """One at every step."""
    sequence = "sequence"
    """One for all steps."""


class DropoutFactors(NamedTuple):
    """The factors, 0 or 1 / (1 - p), that drop the same elements at every step of a decoder.

    They are drawn once with the first state and are a part of it. Where they are None, dropout
    draws at every step.
    """

    embedding: Tensor | None = None  # (R, E)
    layers: tuple[Tensor | None, ...] = ()  # (R, H) for the input of each upper layer
    hidden: Tensor | None = None  # (R, H), for the state that enters the readout
    readout: Tensor | None = None  # (R, F)

    def of_layer(self, layer: int) -> Tensor | None:
        """Return the factors of the input of an upper layer, counted from 0."""
        return self.layers[layer] if self.layers else None

    def select(self, rows: Tensor) -> "DropoutFactors":
        """Return the factors of the given rows, in the given order."""

        def pick(factors: Tensor | None) -> Tensor | None:
            return None if factors is None else factors.index_select(0, rows)

        layers = tuple(map(pick, self.layers))
        return DropoutFactors(pick(self.embedding), layers, pick(self.hidden), pick(self.readout))


def over_steps(factors: Tensor | None) -> Tensor | None:
    """Turn factors (B, ...) into those of all steps of a sequence, (B, 1, ...)."""
    return None if factors is None else factors.unsqueeze(1)


def drop(inputs: Tensor, factors: Tensor | None) -> Tensor:
    """Multiply by the factors, if there are any."""
    return inputs if factors is None else inputs * factors
