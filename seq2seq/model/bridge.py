"""The bridge: the decoder's first hidden states, made from the encoder's states."""

# B batch, S source length, H hidden, L layers

from enum import Enum

import torch
from torch import Tensor, nn


class Bridge(Enum):
    """Where the decoder's first state comes from."""

    projection = "projection"
    mean = "mean"
    zero = "zero"


class ProjectionBridge(nn.Module):
    """Project the last state of each direction, one projection per decoder layer."""

    def __init__(self, states_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.projection = nn.Linear(states_size, num_layers * hidden_size)

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        """Return the decoder's first hidden states (B, L, H)."""
        return self._project(last)

    def _project(self, summary: Tensor) -> Tensor:
        # The product may be of low precision; the state, which adds up over the steps, is not.
        hidden = torch.tanh(self.projection(summary).to(summary.dtype))
        return hidden.view(summary.shape[0], self.num_layers, -1)


class MeanBridge(ProjectionBridge):
    """Project the mean of the real states."""

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        lengths = source_mask.sum(1, keepdim=True).clamp(min=1)
        return self._project(states.sum(1) / lengths)  # the states of padding are 0


class ZeroBridge(nn.Module):
    """Start from zeros: all that the decoder learns of the source comes through attention."""

    def __init__(self, states_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)

    def forward(self, states: Tensor, source_mask: Tensor, last: Tensor) -> Tensor:
        return states.new_zeros(states.shape[0], *self.shape)


def build_bridge(
    kind: Bridge, *, states_size: int, hidden_size: int, num_layers: int
) -> ProjectionBridge | ZeroBridge:
    """Build the bridge that the config names."""
    types: dict[Bridge, type[ProjectionBridge] | type[ZeroBridge]] = {
        Bridge.projection: ProjectionBridge,
        Bridge.mean: MeanBridge,
        Bridge.zero: ZeroBridge,
    }
    return types[kind](states_size, hidden_size, num_layers)
