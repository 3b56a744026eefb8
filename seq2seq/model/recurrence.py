"""A step of the decoder: its state, its GRU cell, three orders of state update and attention, its
readout."""

# B batch, R rows (sentences, or K hypotheses of each sentence), S source length, T target length,
# E embedding, H hidden, C context, F readout, N heads, t steps so far

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionState, Memory
from seq2seq.attention.multihead import Past
from seq2seq.model.config import ModelConfig
from seq2seq.model.encoder import CausalSelfAttentionLayer, NoSelfAttention
from seq2seq.registry import Registry
from seq2seq.runtime.kernels.averages import StepAverages
from seq2seq.runtime.kernels.gru import gru_step, unroll_gru
from seq2seq.runtime.kernels.operations import Dropout, kernels_are_fast, tanh_

_SENTENCES_PER_CALL = 32
"""Number of sentences per attention call on a CPU; keeps the score buffer small enough to be
reused."""


class DecoderState(NamedTuple):
    """Everything that a step needs from the steps before it."""

    hidden: tuple[Tensor, ...]  # one (R, H) per layer, the top layer last
    feedback: Tensor  # the previous readout (R, F) with input feeding, else (R, 0)
    past: Past  # past states (R, t, H) for self-attention, else (R, 0, 0)
    attended: AttentionState  # state of the attention, (R, ...) each; empty for most types

    def select(self, rows: Tensor) -> "DecoderState":
        """Return the state of the given rows, in the given order."""
        return self.with_tensors([part.index_select(0, rows) for part in self.tensors()])

    def tensors(self) -> list[Tensor]:
        """Return all tensors of the state, (R, ...) each."""
        return [*self.hidden, self.feedback, *self.past, *self.attended]

    def with_tensors(self, tensors: Sequence[Tensor]) -> "DecoderState":
        """Return a state with the same number of layers and new tensors, in the order of
        `tensors`."""
        num_layers = len(self.hidden)
        feedback, keys, values, *attended = tensors[num_layers:]
        past = Past(keys, values)
        return DecoderState(tuple(tensors[:num_layers]), feedback, past, tuple(attended))


class Readout(nn.Module):
    """Computes r = tanh(W [s; c; E y] + b) from state, context and embedding.

    This is the attentional vector of Luong et al. 2015, eq. 5, extended by the embedding. With
    self-attention, the decoder's own past states refine the state first.
    """

    def __init__(self, config: ModelConfig, *, context_size: int) -> None:
        super().__init__()
        side = config.decoder
        self.self_attention = (
            CausalSelfAttentionLayer(
                side.hidden_size,
                num_heads=side.self_attention_heads,
                dropout=config.dropout,
            )
            if side.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.dropout)
        joined_size = side.hidden_size + context_size + config.embedding_size
        self.projection = nn.Linear(joined_size, config.readout_size)
        self.norm = nn.LayerNorm(config.readout_size) if config.layer_norm else nn.Identity()

    def start(self, hidden: Tensor) -> Past:
        """Return the empty past for top states of shape (R, H)."""
        return self.self_attention.start(hidden)

    def step(
        self, hidden: Tensor, context: Tensor, embedded: Tensor, past: Past
    ) -> tuple[Tensor, Past]:
        """Compute the readout of one step.

        Args:
            hidden: New outputs of the layers, (R, H).
            context: Contexts, (R, C).
            embedded: Embedded previous tokens, (R, E).
            past: Past of the rows, from `start` or the previous step.

        Returns:
            Readouts (R, F) and the past including this step.
        """
        refined, past = self.self_attention.step(hidden, past)
        return self._join(refined, context, embedded), past

    def forward(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        """Compute the readouts of all steps: (B, T, H), (B, T, C), (B, T, E) -> (B, T, F)."""
        return self._join(self.self_attention(hidden), context, embedded)

    def _join(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        joined = torch.cat((self.hidden_dropout(hidden), context, embedded), dim=-1)
        projected = self.projection(joined).to(hidden.dtype)
        return tanh_(self.norm(projected))


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


class RecurrenceStep(NamedTuple):
    """Result of one step of a recurrence."""

    hidden: tuple[Tensor, ...]  # one (R, H) per layer
    context: Tensor  # (R, C)
    attention_weights: Tensor  # (R, N, S)
    attended: AttentionState


class DecoderOutput(NamedTuple):
    """Result for a whole target; `AttnDecoderRNN.logits` turns the readouts into logits."""

    readouts: Tensor  # (B, T, F)
    attention_weights: Tensor  # (B, N, T, S)
    contexts: Tensor  # (B, T, C)


def join_steps(outputs: Sequence[DecoderOutput]) -> DecoderOutput:
    """Join the outputs of successive steps, which lack the axis T."""
    readouts, weights, contexts = zip(*outputs, strict=True)
    return DecoderOutput(
        torch.stack(readouts, 1), torch.stack(weights, 2), torch.stack(contexts, 1)
    )


class Recurrence(nn.Module, ABC):
    """GRU layers and attention in one order; the part of the decoder before the readout.

    `forward` computes one step, `run` a whole known target. Both give the same values.
    """

    reads_readout = False
    """Whether a step reads the readout of the step before it, as `DecoderState.feedback`; then
    `run` is not called."""

    def __init__(self, config: ModelConfig, *, attention: Attention) -> None:
        super().__init__()
        size, norm = config.decoder.hidden_size, config.layer_norm
        self.attention = attention
        self.bottom_cell = GRUCell(config.embedding_size, size, layer_norm=norm)
        self.upper: Iterable[GRUCell] = nn.ModuleList(  # type: ignore[assignment]  # of one type
            GRUCell(size, size, layer_norm=norm) for _ in range(config.decoder.num_layers - 1)
        )
        self.dropout = Dropout(config.dropout)
        self.residual = config.residual

    def project(self, embedded: Tensor) -> Tensor:
        """Project embedded tokens (..., E) to the gates of the first cell, (..., 3H).

        The projection does not depend on the state; `run` computes it once for all steps.
        """
        projected: Tensor = self.bottom_cell.input_projection(embedded)
        return projected

    @abstractmethod
    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> RecurrenceStep:
        """Advance every row by one token.

        Args:
            projected: Projection of the previous token by `project`, (R, 3H).
            state: State of the rows.
            memory: Memory of B sentences; R is a multiple of B, and the rows of a sentence are
                adjacent.
        """

    def run(
        self, projected: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read a known target.

        Args:
            projected: Projection of the previous tokens by `project`, (B, T, 3H).
            state: State before the first step.
            memory: Memory of the same B sentences.

        Returns:
            Outputs of the layers (B, T, H), contexts (B, T, C) and attention weights (B, N, T, S).
        """
        steps: list[RecurrenceStep] = []
        memory = for_loop(memory)
        for each in projected.unbind(1):
            steps.append(self(each, state, memory))
            state = state._replace(hidden=steps[-1].hidden, attended=steps[-1].attended)
        weights = torch.stack([step.attention_weights for step in steps], dim=2)
        top = torch.stack([self.top(step.hidden) for step in steps], dim=1)
        return top, torch.stack([step.context for step in steps], dim=1), weights

    def feedback(self, readout: Tensor) -> Tensor:
        """Return the part of a readout (R, F) that the next step reads: all of it, or (R, 0)."""
        return readout if self.reads_readout else readout.new_empty(readout.shape[0], 0)

    def top(self, hidden: Sequence[Tensor]) -> Tensor:
        """Return the output of the given layers; with residual connections the sum of all states.

        A residual connection adds the input of a layer to its output (Wu et al. 2016, 3.1), so the
        output of a layer is the sum of the states up to it. The states themselves stay as they are.
        """
        return torch.stack(tuple(hidden)).sum(0) if self.residual else hidden[-1]

    def _upper_layers(self, bottom: Tensor, state: DecoderState) -> tuple[Tensor, ...]:
        """Update the upper layers, given the new state of the first layer; return all layers."""
        states = [bottom]
        for cell, previous in zip(self.upper, state.hidden[1:], strict=True):
            inputs = self.dropout(self.top(states))
            states.append(cell(cell.input_projection(inputs), previous))
        return tuple(states)


DECODERS = Registry[Callable[..., Recurrence]]("model.form")
"""The forms of the decoder by name: subclasses of `Recurrence`, or functions that build one."""
register_decoder = DECODERS.register


@register_decoder("bahdanau")
class BahdanauRecurrence(Recurrence):
    """Attention with the old state, then GRU over [embedding; context] (Bahdanau et al. 2015)."""

    def __init__(self, config: ModelConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.context_projection = nn.Linear(
            attention.context_size, 3 * config.decoder.hidden_size, bias=False
        )

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> RecurrenceStep:
        query = self.top(state.hidden)
        context, weights, attended = self.attention.step(query, memory, state.attended)
        bottom = self.bottom_cell(projected + self.context_projection(context), state.hidden[0])
        return RecurrenceStep(self._upper_layers(bottom, state), context, weights, attended)


@register_decoder("conditional")
class ConditionalRecurrence(Recurrence):
    """GRU over the embedding, attention, GRU over the context (Sennrich et al. 2017, cGRU)."""

    def __init__(self, config: ModelConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.context_cell = GRUCell(
            attention.context_size, config.decoder.hidden_size, layer_norm=config.layer_norm
        )

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> RecurrenceStep:
        intermediate = self.bottom_cell(projected, state.hidden[0])
        context, weights, attended = self.attention.step(intermediate, memory, state.attended)
        bottom = self.context_cell(self.context_cell.input_projection(context), intermediate)
        return RecurrenceStep(self._upper_layers(bottom, state), context, weights, attended)


class LuongRecurrence(Recurrence):
    """GRU over the embedding, then attention with the new state (Luong et al. 2015).

    No hidden state depends on a context; one call attends with all states of a known target.
    """

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> RecurrenceStep:
        hidden = self._upper_layers(self.bottom_cell(projected, state.hidden[0]), state)
        attended = self.attention.step(self.top(hidden), memory, state.attended)
        return RecurrenceStep(hidden, *attended)

    def run(
        self, projected: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read a known target, as `Recurrence.run` does."""
        top = self._unroll(projected, state)
        return top, *self._attend_at_once(top, memory)

    def _unroll(self, projected: Tensor, state: DecoderState) -> Tensor:
        """Return the outputs of the layers over a known target, (B, T, 3H) -> (B, T, H)."""
        states = [self.bottom_cell.unroll(projected.transpose(0, 1), state.hidden[0])]  # (T, B, H)
        for cell, hidden in zip(self.upper, state.hidden[1:], strict=True):
            inputs = self.dropout(self.top(states))
            states.append(cell.unroll(cell.input_projection(inputs), hidden))
        return self.top(states).transpose(0, 1)

    def _attend_at_once(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with all states (B, T, H); return context (B, T, C) and weights (B, N, T, S)."""
        size = _SENTENCES_PER_CALL if hidden.device.type == "cpu" else max(len(hidden), 1)
        parts = zip(*(torch.split(each, size) for each in (hidden, *memory)), strict=True)
        attended = [self.attention(queries, Memory(*rest)) for queries, *rest in parts]
        context, weights = (torch.cat(each) for each in zip(*attended, strict=True))
        return context, weights


class InputFeedingRecurrence(LuongRecurrence):
    """Luong's form that also reads the previous readout (Luong et al. 2015, 3.3)."""

    reads_readout = True

    def __init__(self, config: ModelConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.feedback_projection = nn.Linear(
            config.readout_size, 3 * config.decoder.hidden_size, bias=False
        )

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> RecurrenceStep:
        return super().forward(projected + self.feedback_projection(state.feedback), state, memory)


class _LoopMemory(Memory):
    """A memory that a loop reads in each step; see `StepAverages`."""

    averages: StepAverages | None = None  # None in copies made by `_replace`

    def average(self, weights: Tensor) -> Tensor:
        if self.averages is None:
            return super().average(weights)
        return self.averages(weights.to(self.values.dtype))


def for_loop(memory: Memory) -> Memory:
    """Return the memory for a loop of `Attention.step` over a known target."""
    needs_gradient = torch.is_grad_enabled() and memory.values.requires_grad
    if not (needs_gradient and kernels_are_fast() and memory.values.device.type == "cpu"):
        return memory
    in_loop = _LoopMemory(*memory)
    in_loop.averages = StepAverages(memory.values)
    return in_loop


@register_decoder("luong")
def build_luong(config: ModelConfig, *, attention: Attention) -> Recurrence:
    """Build the form `luong`, with input feeding if the config says so."""
    form = InputFeedingRecurrence if config.input_feeding else LuongRecurrence
    return form(config, attention=attention)


def build_recurrence(config: ModelConfig, *, attention: Attention) -> Recurrence:
    """Build the recurrence of the configured form.

    Raises:
        ValueError: No form of this name is registered.
    """
    build = DECODERS.choose(config.form)
    with warnings.catch_warnings():
        # Without attention, the context and the weights that read it have size 0.
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
        return build(config, attention=attention)
