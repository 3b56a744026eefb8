"""GRU layers on CUDA: cuDNN over padded sequences, without lengths on the host."""

# B batch, T length, I input, H hidden of one direction

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def direction_parameters(gru: nn.GRU, suffix: str) -> list[nn.Parameter]:
    """Return the parameters of one direction of a layer in the order that `torch.gru` takes.

    Args:
        gru: GRU layers with biases.
        suffix: End of the parameters' names: `l0`, `l0_reverse`, `l1`, ...
    """
    return [getattr(gru, f"{kind}_{suffix}") for kind in _KINDS]


def flatten_direction(parameters: Sequence[nn.Parameter]) -> None:
    """Store the parameters of one direction in one block of memory, as cuDNN reads them.

    Otherwise cuDNN copies them at every call. `nn.GRU` stores all directions and layers in one
    block, which fits only a call over all of them.
    """
    weight = parameters[0]
    direction = nn.GRU(weight.shape[1], weight.shape[0] // 3, device="meta")
    for kind, parameter in zip(_KINDS, parameters, strict=True):
        setattr(direction, f"{kind}_l0", parameter)
    direction.flatten_parameters()


def run_direction(
    inputs: Tensor, padding: Tensor, parameters: Sequence[Tensor], *, reverse: bool
) -> Tensor:
    """Run one direction of a layer over padded sequences.

    The reverse direction reads each row turned round, without its padding, which stays in its
    place. Nothing here depends on a value on the host: a packed sequence would need the lengths
    there, and kernels that depend on them.

    Args:
        inputs: Input sequences, (T, B, I).
        padding: (T, B) bool; True marks padding, which comes last.
        parameters: Result of `direction_parameters`.
        reverse: Read from the last real position to the first.

    Returns:
        States, (T, B, H). At padding the forward direction keeps its last state, and the reverse
        one is undefined; a row without a real position is 0.
    """
    places = torch.arange(len(inputs), device=inputs.device).unsqueeze(1)  # (T, 1)
    last = (~padding).sum(0) - 1  # (B,)
    if reverse:
        order = torch.where(padding, places, last - places)
        inputs = _reorder(inputs, order)
    else:
        order = torch.minimum(places, last.clamp(min=0))
    hidden = inputs.new_zeros(1, inputs.shape[1], parameters[1].shape[1])
    states, _ = torch.gru(
        inputs, hidden, list(parameters), True, 1, 0.0, torch.is_grad_enabled(), False, False
    )
    return _reorder(states, order).masked_fill(padding[:1].unsqueeze(-1), 0.0)


def _reorder(rows: Tensor, order: Tensor) -> Tensor:
    """Return the rows (T, B, ...) in the order (T, B) of their places."""
    return rows.gather(0, order.unsqueeze(-1).expand_as(rows))
