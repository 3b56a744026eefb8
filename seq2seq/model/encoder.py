"""The encoder, a bidirectional GRU over the source, and self-attention over recurrent states."""

# B batch, R rows, S source length, T length, I input, H hidden of one direction, D state size

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.multihead import CausalSelfAttention, MultiHeadConfig, Past, SelfAttention
from seq2seq.model.config import ModelConfig
from seq2seq.runtime.kernels.gru import unroll_gru
from seq2seq.runtime.kernels.operations import Dropout

_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Encoder(nn.Module):
    """Encodes the source in both directions; the states of padding are exactly 0."""

    def __init__(self, config: ModelConfig, *, embedding: nn.Embedding) -> None:
        super().__init__()
        side = config.encoder
        self.states_size = side.state_size
        self.embedding = embedding
        self.word_dropout = nn.Dropout1d(config.word_dropout)
        self.embedding_dropout = Dropout(config.dropout)
        self.gru = BidirectionalGRU(
            config.embedding_size,
            side.hidden_size,
            num_layers=side.num_layers,
            dropout=config.dropout,
            residual=config.residual,
        )
        self.norm = nn.LayerNorm(self.states_size) if config.layer_norm else nn.Identity()
        self.self_attention = (
            SelfAttentionLayer(
                self.states_size,
                num_heads=side.self_attention_heads,
                dropout=config.dropout,
            )
            if side.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.dropout)

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a batch of sources.

        Args:
            source_ids: Source token ids, (B, S).
            source_mask: (B, S) bool; True marks a real token. Padding comes last.

        Returns:
            States (B, S, 2H) and the last state of each direction in the top layer, (B, 2H).
        """
        embedded = self.embedding_dropout(self.word_dropout(self.embedding(source_ids)))
        states, last = self.gru(embedded, source_mask)
        states = self.self_attention(self.norm(states), source_mask)
        states = self.hidden_dropout(states) * source_mask.unsqueeze(-1)
        return states, last


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


class SelfAttentionLayer(nn.Module):
    """LayerNorm(x + Dropout(SelfAttention(x))) (Vaswani et al. 2017, 3.1)."""

    attention: SelfAttention
    _attention_type = SelfAttention

    def __init__(self, size: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        config = MultiHeadConfig(size=size, num_heads=num_heads)
        self.attention = self._attention_type(config)
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Refine states (B, T, D); the mask (B, T) marks the real states, None means all."""
        return self._join(states, self.attention(states, mask).context)

    def _join(self, states: Tensor, context: Tensor) -> Tensor:
        refined: Tensor = self.norm(states + self.dropout(context))
        return refined


class CausalSelfAttentionLayer(SelfAttentionLayer):
    """`SelfAttentionLayer` in which a state attends to itself and to earlier states.

    A loop of `step` over the states computes the same as one call of `forward`.
    """

    attention: CausalSelfAttention
    _attention_type = CausalSelfAttention

    def start(self, state: Tensor) -> Past:
        """Return the empty past for states of shape (R, D)."""
        return self.attention.start(state)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Refine the next state of each row, (R, D); return it and the past including it."""
        context, past = self.attention.step(state, past)
        return self._join(state, context), past


class NoSelfAttention(nn.Module):
    """Returns the states unchanged and keeps no past."""

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        return states

    def start(self, state: Tensor) -> Past:
        empty = state.new_empty(state.shape[0], 0, 0)
        return Past(empty, empty)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        return state, past
