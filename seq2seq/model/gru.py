"""Gated recurrent units: a cell for one step and bidirectional layers over sequences."""

# B batch, R rows, T length, I input, H hidden of one direction, L layers

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seq2seq.kernels.dropout import Dropout
from seq2seq.kernels.gru_unroll import unroll_gru
from seq2seq.model.sequence_dropout import DropoutMode


class GRUCell(nn.Module):
    """Gated recurrent unit that takes a projected input.

    It computes r = sigmoid(x_r + U_r h), z = sigmoid(x_z + U_z h), n = tanh(x_n + r * (U_n h + b))
    and h' = (1 - z) * n + z * h (Cho et al. 2014, in the form of `torch.nn.GRU`). The projected
    input (x_r, x_z, x_n) is the result of `input_projection`, which a loop over a known sequence
    calls once. Layer normalisation normalises both projections (Ba et al. 2016).
    """

    def __init__(self, input_size: int, hidden_size: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_size, 3 * hidden_size)
        self.hidden_projection = nn.Linear(hidden_size, 3 * hidden_size)
        self.input_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()
        self.hidden_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()

    def forward(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the next state (R, H), given a projected input (R, 3H) and the state (R, H)."""
        parts = (2 * hidden.shape[-1], hidden.shape[-1])
        x_all = self.input_norm(projected)
        h_all = self.hidden_norm(self.hidden_projection(hidden))
        # Products may use low precision; the state, which accumulates over the steps, does not.
        x_gates, x_new = x_all.to(hidden.dtype).split(parts, dim=-1)
        h_gates, h_new = h_all.to(hidden.dtype).split(parts, dim=-1)
        reset, update = torch.sigmoid(x_gates + h_gates).chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(x_new, reset, h_new))  # x_n + r * (U_n h + b)
        return torch.lerp(new, hidden, update)  # (1 - z) * n + z * h

    def unroll(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the state after each step, (T, B, 3H) -> (T, B, H), from a first state (B, H)."""
        if isinstance(self.hidden_norm, nn.Identity):
            projection = self.hidden_projection
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
        dropout_mode: DropoutMode = DropoutMode.step,
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
        shared_dim = 0 if dropout_mode is DropoutMode.sequence else None  # that of time
        self.between_layers = Dropout(self.dropout, shared_dim=shared_dim)

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Run over sequences in both directions.

        Args:
            inputs: Input sequences, (B, T, I).
            mask: (B, T) bool; True marks a real position. Padding comes last.

        Returns:
            States (B, T, 2H), undefined at padding, and the last state of each direction in the
            top layer, (B, 2H), which is 0 for a sequence without a real position. With residual
            connections, the first are the outputs of the top layer: its states and its input.
        """
        if inputs.is_cuda:
            # Autocast would run cuDNN, and with it the states, in fp16 even if its type is bf16.
            with torch.autocast("cuda", enabled=False):
                if self.residual or self.between_layers.shared_dim is not None:
                    return self.forward_packed_layers(inputs, mask)
                return self.forward_packed(inputs, mask)
        return run_bidirectional(
            inputs,
            mask,
            self._direction,
            num_layers=self.num_layers,
            between=self.between_layers,
            residual=self.residual,
        )

    def _direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
        """Run one direction of a layer, as `run_bidirectional` calls it."""
        input_weight, weight, input_bias, bias = (
            getattr(self, f"{kind}_{suffix}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        projected = functional.linear(inputs, input_weight, input_bias)
        hidden = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        is_reverse = suffix.endswith("reverse")
        return unroll_gru(projected, hidden, weight, bias, padding=padding, reverse=is_reverse)

    def forward_packed(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Compute `forward` with torch's own loop or cuDNN; the states of padding are 0."""
        # Packing asks for at least one step.
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = super().forward(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=inputs.shape[1]
        )
        top = last[-2:].transpose(0, 1).flatten(1)  # (2L, B, H) -> (B, 2H)
        return states, top * mask.any(1, keepdim=True)

    def forward_packed_layers(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Compute `forward` with torch's own loop or cuDNN, which is called for each layer."""
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        first = inputs.new_zeros(2, len(inputs), self.hidden_size)
        rows = packed.unsorted_indices
        assert rows is not None, "set unless enforce_sorted"
        outputs = inputs
        for layer in range(self.num_layers):
            if layer:
                dropped = self.between_layers(outputs.transpose(0, 1))  # (T, B, 2H)
                packed = pack_padded_sequence(dropped, lengths, enforce_sorted=False)
            weights = [
                getattr(self, f"{kind}_l{layer}{suffix}")
                for suffix in ("", "_reverse")
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            data, last = torch.gru(
                packed.data, packed.batch_sizes, first, weights, True, 1, 0.0, self.training, True
            )
            states, _ = pad_packed_sequence(
                PackedSequence(data, *packed[1:]), batch_first=True, total_length=inputs.shape[1]
            )
            outputs = outputs + states if self.residual and layer else states
        top = last.index_select(1, rows).transpose(0, 1).flatten(1)  # (2, B, H) -> (B, 2H)
        return outputs, top * mask.any(1, keepdim=True)


def run_bidirectional(
    inputs: Tensor,
    mask: Tensor,
    direction: Callable[[Tensor, Tensor | None, str], Tensor],
    *,
    num_layers: int,
    between: Callable[[Tensor], Tensor],
    residual: bool,
) -> tuple[Tensor, Tensor]:
    """Run both directions of every layer.

    Args:
        inputs: Input sequences, (B, T, I).
        mask: (B, T) bool; True marks a real position.
        direction: Computes the states (T, B, H) of one direction of a layer. Its arguments are
            the inputs (T, B, I), the mask of padding (T, B) or None, and the suffix of the
            parameters' names: `l0`, `l0_reverse`, `l1`, ...
        num_layers: Number of layers, L.
        between: Function applied to the states between two layers.
        residual: Whether the input of each layer above the first is added to its states.

    Returns:
        The results of `BidirectionalGRU.forward`.
    """
    outputs = inputs.transpose(0, 1)  # (T, B, I)
    padding = None if mask.all() else ~mask.t()
    for layer in range(num_layers):
        layer_inputs = between(outputs) if layer else outputs
        forward = direction(layer_inputs, padding, f"l{layer}")
        backward = direction(layer_inputs, padding, f"l{layer}_reverse")
        states = torch.cat((forward, backward), dim=-1)
        outputs = outputs + states if residual and layer else states
    states = outputs.transpose(0, 1).contiguous()  # (B, T, 2H)
    return states, torch.cat((forward[-1], backward[0]), dim=-1)
