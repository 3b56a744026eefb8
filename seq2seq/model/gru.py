"""Gated recurrent units: a cell for one step and bidirectional layers over sequences."""

# B batch, R rows, T length, I input, H hidden of one direction, L layers

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.kernels.elementwise import Dropout
from seq2seq.kernels.gru import gru_step, unroll_gru

_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class GRUCell(nn.Module):
    """Gated recurrent unit that takes a projected input.

    It computes r = sigmoid(x_r + U_r h), z = sigmoid(x_z + U_z h), n = tanh(x_n + r * (U_n h + b))
    and h' = (1 - z) * n + z * h (Cho et al. 2014, in the form of `torch.nn.GRU`). The projected
    input (x_r, x_z, x_n) is the result of `input_projection`, which a loop over a known sequence
    calls once. Layer normalization normalizes both projections (Ba et al. 2016).
    """

    def __init__(self, input_size: int, hidden_size: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_size, 3 * hidden_size)
        self.hidden_projection = nn.Linear(hidden_size, 3 * hidden_size)
        self.input_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()
        self.hidden_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()

    def forward(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the next state (R, H), given a projected input (R, 3H) and the state (R, H)."""
        hidden_projection = self.hidden_norm(self.hidden_projection(hidden))
        return gru_step(self.input_norm(projected), hidden_projection, hidden)

    def unroll(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the state after each step, (T, B, 3H) -> (T, B, H), from a first state (B, H)."""
        projection = self.hidden_projection
        if isinstance(self.hidden_norm, nn.Identity):
            return unroll_gru(projected, hidden, projection.weight, projection.bias)
        states = []
        for step in projected:
            hidden = self(step, hidden)
            states.append(hidden)
        return torch.stack(states)


class BidirectionalGRU(nn.GRU):
    """Bidirectional GRU layers over padded sequences, with the parameters of `torch.nn.GRU`.

    CUDA devices use cuDNN. Other devices use `unroll_gru`, which is faster than torch's loop.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        num_layers: int,
        dropout: float,
        residual: bool = False,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )
        self.residual = residual
        self.between_layers = Dropout(self.dropout)

    def forward(  # type: ignore[override]
        self, inputs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run over sequences in both directions.

        Args:
            inputs: Input sequences, (B, T, I).
            mask: (B, T) bool; True marks a real position. Padding comes last.

        Returns:
            States (B, T, 2H), undefined at padding, and the last state of each direction in the
            top layer, (B, 2H), which is 0 for a sequence without a real position. Residual
            connections add the input of a layer to its states, but not to its last state.
        """
        outputs = inputs.transpose(0, 1)  # (T, B, I)
        # Only a CPU checks whether there is padding; the check would make the host wait for a GPU.
        padding = None if mask.device.type == "cpu" and mask.all() else ~mask.t()
        for layer in range(self.num_layers):
            layer_inputs = self.between_layers(outputs) if layer else outputs
            forward = self._direction(layer_inputs, padding, f"l{layer}")
            backward = self._direction(layer_inputs, padding, f"l{layer}_reverse")
            states = torch.cat((forward, backward), dim=-1)
            outputs = outputs + states if self.residual and layer else states
        states = outputs.transpose(0, 1).contiguous()  # (B, T, 2H)
        return states, torch.cat((forward[-1], backward[0]), dim=-1)

    def _direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
        """Return the states (T, B, H) of one direction of a layer.

        Args:
            inputs: (T, B, I).
            padding: (T, B) bool; None without padding.
            suffix: End of the parameters' names: `l0`, `l0_reverse`, `l1`, ...
        """
        parameters = direction_parameters(self, suffix)
        is_reverse = suffix.endswith("reverse")
        if inputs.is_cuda:
            assert padding is not None
            # Autocast would make cuDNN compute in fp16, even if autocast's type is bf16.
            with torch.autocast("cuda", enabled=False):
                return run_direction(inputs, padding, parameters, reverse=is_reverse)
        input_weight, weight, input_bias, bias = parameters
        projected = functional.linear(inputs, input_weight, input_bias)
        hidden = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        return unroll_gru(projected, hidden, weight, bias, padding=padding, reverse=is_reverse)

    def flatten_parameters(self) -> None:
        """Store the parameters in the blocks that cuDNN reads; on a CPU nothing changes."""
        if self.weight_ih_l0.is_cuda:
            for layer in range(self.num_layers):
                for suffix in (f"l{layer}", f"l{layer}_reverse"):
                    flatten_direction(direction_parameters(self, suffix))


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
    block, which fits only a call that runs all of them.
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

    The reverse direction reads each row reversed, except for its padding, which stays in place.
    Nothing here depends on a value on the host; a packed sequence would need the lengths on the
    host, and kernels that depend on the lengths.

    Args:
        inputs: Input sequences, (T, B, I).
        padding: (T, B) bool; True marks padding, which comes last.
        parameters: Result of `direction_parameters`.
        reverse: Read from the last real position to the first.

    Returns:
        States, (T, B, H). At padding, the forward direction keeps its last state, and the reverse
        direction is undefined. The states of a row without a real position are 0.
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
    """Reorder rows (T, B, ...) along T by the indices in `order`, (T, B)."""
    return rows.gather(0, order.unsqueeze(-1).expand_as(rows))
