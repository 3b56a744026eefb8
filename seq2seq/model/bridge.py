"""The bridge computes the decoder's first hidden states from the encoder's states."""

# B batch, S source length, H hidden of the decoder, D encoder state size, L layers of the decoder

from enum import Enum

import torch
from torch import Tensor, nn


class Bridge(Enum):
    """Source of the decoder's first hidden states."""

    projection = "projection"
    mean = "mean"
    zero = "zero"


class ProjectionBridge(nn.Module):
    """Projects the last state of each direction, with one projection per decoder layer."""

    def __init__(self, states_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.projection = nn.Linear(states_size, num_layers * hidden_size)

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        """Compute the decoder's first hidden states.

        Args:
            states: Encoder states, (B, S, D); those of padding are 0.
            source_mask: (B, S) bool; True marks a real token.
            last: Last state of each direction, (B, D).

        Returns:
            Hidden states, (B, L, H).
        """
        return self._project(last)

    def _project(self, summary: Tensor) -> Tensor:
        # The product may use low precision; the state, which accumulates over the steps, does not.
        hidden = torch.tanh(self.projection(summary).to(summary.dtype))
        return hidden.view(summary.shape[0], self.num_layers, -1)


class MeanBridge(ProjectionBridge):
    """Projects the mean of the real states."""

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        lengths = source_mask.sum(1, keepdim=True).clamp(min=1)
        return self._project(states.sum(1) / lengths)


class ZeroBridge(nn.Module):
    """Returns zeros; attention is then the only path from the source to the decoder."""

    def __init__(self, states_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        return states.new_zeros(states.shape[0], *self.shape)


def build_bridge(
    kind: Bridge, *, states_size: int, hidden_size: int, num_layers: int
) -> ProjectionBridge | ZeroBridge:
    """Build a bridge.

    Args:
        kind: Kind of bridge.
        states_size: Size of an encoder state, D.
        hidden_size: Size of a decoder state, H.
        num_layers: Number of decoder layers, L.
    """
    types: dict[Bridge, type[ProjectionBridge] | type[ZeroBridge]] = {
        Bridge.projection: ProjectionBridge,
        Bridge.mean: MeanBridge,
        Bridge.zero: ZeroBridge,
    }
    return types[kind](states_size, hidden_size, num_layers)
