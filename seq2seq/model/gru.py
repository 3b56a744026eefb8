"""Gated recurrent units: one step, and layers of them in both directions."""

# B batch, T length, I input, H hidden of one direction, L layers

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.kernels.dropout import Dropout
from seq2seq.kernels.gru_unroll import unroll_gru


class GRUCell(nn.Module):
    """A gated recurrent unit whose input arrives projected, so that a loop need not project it.

    r = sigmoid(x_r + U_r h), z = sigmoid(x_z + U_z h), n = tanh(x_n + r * (U_n h + b)),
    h' = (1 - z) * n + z * h (Cho et al. 2014, in the form of torch.nn.GRU), where (x_r, x_z, x_n)
    is the projected input. With layer normalisation both projections are normalised (Ba et al.
    2016).
    """

    def __init__(self, input_size: int, hidden_size: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_size, 3 * hidden_size)
        self.hidden_projection = nn.Linear(hidden_size, 3 * hidden_size)
        self.input_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()
        self.hidden_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()

    def forward(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the next state (R, H) from a projected input (R, 3H) and the state (R, H)."""
        parts = (2 * hidden.shape[-1], hidden.shape[-1])
        x_all = self.input_norm(projected)
        h_all = self.hidden_norm(self.hidden_projection(hidden))
        # Products may be of low precision; the state, which adds up over the steps, is not.
        x_gates, x_new = x_all.to(hidden.dtype).split(parts, dim=-1)
        h_gates, h_new = h_all.to(hidden.dtype).split(parts, dim=-1)
        reset, update = torch.sigmoid(x_gates + h_gates).chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(x_new, reset, h_new))
        return torch.lerp(new, hidden, update)

    def unroll(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the states after each step, (T, B, 3H) -> (T, B, H), from the first one (B, H)."""
        if isinstance(self.hidden_norm, nn.Identity):
            projection = self.hidden_projection
            return unroll_gru(projected, hidden, projection.weight, projection.bias)
        states = []
        for step in projected:
            hidden = self(step, hidden)
            states.append(hidden)
        return torch.stack(states)


class BidirectionalGRU(nn.GRU):
    """Layers of a GRU in both directions over padded sequences; the weights are torch.nn.GRU's.

    CUDA runs cuDNN's kernels, everything else `unroll`, which is faster than torch's own loop.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, num_layers: int, dropout: float
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Read sequences in both directions.

        Args:
            inputs: (B, T, I).
            mask: (B, T) bool, True = real; padding stands at the end and changes nothing.

        Returns:
            States (B, T, 2H), whatever they are at padding, and the last state of each direction
            in the top layer, (B, 2H); of a sequence without a real token zeros.
        """
        if inputs.is_cuda:
            # autocast would run cuDNN in fp16, whatever its own type, and the states with it.
            with torch.autocast("cuda", enabled=False):
                return self.forward_packed(inputs, mask)
        dropout = Dropout(self.dropout).train(self.training)
        return run_bidirectional(
            inputs, mask, self._direction, num_layers=self.num_layers, between=dropout
        )

    def _direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
        """Do what `run_bidirectional` asks of a direction; its weights bear the suffix."""
        input_weight, weight, input_bias, bias = (
            getattr(self, f"{kind}_{suffix}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        projected = functional.linear(inputs, input_weight, input_bias)
        hidden = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        is_reverse = suffix.endswith("reverse")
        return unroll_gru(projected, hidden, weight, bias, padding=padding, reverse=is_reverse)

    def forward_packed(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `forward` does by torch's own loop, or by cuDNN; states of padding are 0."""
        # Packing asks for at least one step.
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = super().forward(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=inputs.shape[1]
        )
        top = last[-2:].transpose(0, 1).flatten(1)  # (2L, B, H) -> (B, 2H)
        return states, top * mask.any(1, keepdim=True)


def run_bidirectional(
    inputs: Tensor,
    mask: Tensor,
    direction: Callable[[Tensor, Tensor | None, str], Tensor],
    *,
    num_layers: int,
    between: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Run the directions of every layer, as `BidirectionalGRU.forward` describes.

    Args:
        inputs: (B, T, I).
        mask: (B, T) bool, True = real.
        direction: returns the states (T, B, H) of one direction of a layer from its inputs, time
            first, padding (T, B) if there is any, and torch's suffix: `l0`, `l0_reverse`, `l1`.
        num_layers: L.
        between: applied to the states between two layers.
    """
    states = inputs.transpose(0, 1)  # (T, B, I): the rows of a step stand together
    padding = None if mask.all() else ~mask.t()
    for layer in range(num_layers):
        forward = direction(states, padding, f"l{layer}")
        backward = direction(states, padding, f"l{layer}_reverse")
        states = torch.cat((forward, backward), dim=-1)
        if layer < num_layers - 1:
            states = between(states)
    # Whoever reads them next wants the states of a sentence together.
    states = states.transpose(0, 1).contiguous()
    return states, torch.cat((forward[-1], backward[0]), dim=-1)
