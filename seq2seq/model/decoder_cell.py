"""The order of state and attention in a decoder step: three forms of the literature."""

# R rows (sentences, or K hypotheses of each sentence), E embedding, H hidden, C context,
# F readout, N heads, S source length, T target length

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention, Memory, Past
from seq2seq.checks import check_positive, check_probabilities
from seq2seq.kernels.dropout import Dropout
from seq2seq.model.gru import GRUCell

_SENTENCES = 32
"""whose targets attend at once on a CPU: what scores them stays small enough to be used again"""


class DecoderForm(Enum):
    """The order of state and attention."""

    bahdanau = "bahdanau"
    conditional = "conditional"
    luong = "luong"


@dataclass(kw_only=True, slots=True)
class DecoderConfig:
    """The decoder's form, sizes and dropout."""

    form: DecoderForm
    input_feeding: bool
    """Luong's form only: the previous readout stands beside the embedding."""
    embedding_size: int
    hidden_size: int
    num_layers: int
    readout_size: int
    """Length of what the output layer reads; the embedding size where embeddings are tied."""
    layer_norm: bool
    """Normalise the projections inside the GRU cells and the readout."""
    self_attention: bool
    """Let the readout see the state together with the decoder's own past states."""
    self_attention_heads: int
    word_dropout: float
    """Probability with which the whole embedding of a token is dropped."""
    embedding_dropout: float
    hidden_dropout: float
    """Between layers and on the state that the readout sees."""
    readout_dropout: float
    vectors: str | None
    """Path of pretrained word vectors to begin with."""

    def __post_init__(self) -> None:
        sizes = ("embedding_size", "hidden_size", "num_layers", "readout_size")
        check_positive("model.decoder", self, *sizes, "self_attention_heads")
        if self.self_attention and self.hidden_size % self.self_attention_heads:
            raise ValueError(
                f"model.decoder.self_attention_heads={self.self_attention_heads} must divide "
                f"model.decoder.hidden_size={self.hidden_size}"
            )
        dropouts = ("word_dropout", "embedding_dropout", "hidden_dropout", "readout_dropout")
        check_probabilities("model.decoder", self, *dropouts)
        if self.input_feeding and self.form is not DecoderForm.luong:
            raise ValueError(
                f"model.decoder.input_feeding=true goes with form=luong, not {self.form.value}, "
                "which feeds its context back; set it to false"
            )


class DecoderState(NamedTuple):
    """What a decoder carries from step to step."""

    hidden: tuple[Tensor, ...]  # one (R, H) per layer, the top one last
    readout: Tensor  # (R, F) with input feeding, else (R, 0)
    past: Past  # what self-attention has seen, (R, t, H), else (R, 0, 0)

    def select(self, rows: Tensor) -> "DecoderState":
        """Keep the given rows, in the given order."""
        hidden = tuple(layer.index_select(0, rows) for layer in self.hidden)
        return DecoderState(hidden, self.readout.index_select(0, rows), self.past.select(rows))


class CellOutput(NamedTuple):
    """What one step of a recurrence yields."""

    hidden: tuple[Tensor, ...]  # one (R, H) per layer
    context: Tensor  # (R, C)
    attention_weights: Tensor  # (R, N, S)


class Recurrence(nn.Module, ABC):
    """One decoder step between embedding and readout.

    `project` needs no state: a loop over a known target does it once for all steps.
    """

    def __init__(self, config: DecoderConfig, *, attention: Attention) -> None:
        super().__init__()
        size, norm = config.hidden_size, config.layer_norm
        self.attention = attention
        self.first = GRUCell(config.embedding_size, size, layer_norm=norm)
        self.upper: Iterable[GRUCell] = nn.ModuleList(  # type: ignore[assignment]  # of one type
            GRUCell(size, size, layer_norm=norm) for _ in range(config.num_layers - 1)
        )
        self.dropout = Dropout(config.hidden_dropout)

    def project(self, embedded: Tensor) -> Tensor:
        """Project embedded tokens (..., E) to the first cell's gates (..., 3H)."""
        projected: Tensor = self.first.input_projection(embedded)
        return projected

    @abstractmethod
    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> CellOutput:
        """CellOutput every row by one token.

        Args:
            projected: what `project` made of the previous token, (R, 3H).
            state: the rows' state.
            memory: of B sentences; R is a multiple of B and a sentence's rows stand together.
        """

    def _attend(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with every row's query (R, H); return context (R, C) and weights (R, N, S)."""
        queries = query.view(memory.keys.shape[0], -1, query.shape[-1])  # (B, K, H)
        context, weights = self.attention(queries, memory)
        return context.flatten(0, 1), weights.transpose(1, 2).flatten(0, 1)

    def _upper_layers(self, bottom: Tensor, hidden: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run the upper layers on the new bottom state, from their previous states."""
        states = [bottom]
        for cell, previous in zip(self.upper, hidden[1:], strict=True):
            states.append(cell(cell.input_projection(self.dropout(states[-1])), previous))
        return tuple(states)


class BahdanauRecurrence(Recurrence):
    """Attend with the previous state, then GRU over [embedding; context] (Bahdanau et al. 2015)."""

    def __init__(self, config: DecoderConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.context_projection = nn.Linear(
            attention.context_size, 3 * config.hidden_size, bias=False
        )

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> CellOutput:
        context, weights = self._attend(state.hidden[-1], memory)
        bottom = self.first(projected + self.context_projection(context), state.hidden[0])
        return CellOutput(self._upper_layers(bottom, state.hidden), context, weights)


class ConditionalRecurrence(Recurrence):
    """GRU over the embedding, attend, second GRU over the context (Sennrich et al. 2017, cGRU)."""

    def __init__(self, config: DecoderConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.second = GRUCell(
            attention.context_size, config.hidden_size, layer_norm=config.layer_norm
        )

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> CellOutput:
        intermediate = self.first(projected, state.hidden[0])
        context, weights = self._attend(intermediate, memory)
        bottom = self.second(self.second.input_projection(context), intermediate)
        return CellOutput(self._upper_layers(bottom, state.hidden), context, weights)


class LuongRecurrence(Recurrence):
    """GRU over the embedding, then attend with the new state (Luong et al. 2015).

    No state depends on a context, so a known target needs attention only once, after the loop.
    """

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> CellOutput:
        hidden = self._upper_layers(self.first(projected, state.hidden[0]), state.hidden)
        return CellOutput(hidden, *self._attend(hidden[-1], memory))

    def unroll(self, projected: Tensor, state: DecoderState) -> Tensor:
        """Return the top states over a known target, (B, T, 3H) -> (B, T, H)."""
        states = self.first.unroll(projected.transpose(0, 1), state.hidden[0])  # (T, B, H)
        for cell, hidden in zip(self.upper, state.hidden[1:], strict=True):
            states = cell.unroll(cell.input_projection(self.dropout(states)), hidden)
        return states.transpose(0, 1)

    def attend(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with all states of a target, (B, T, H), as `Attention.forward` does."""
        size = _SENTENCES if hidden.device.type == "cpu" else max(len(hidden), 1)
        parts = zip(*(torch.split(each, size) for each in (hidden, *memory)), strict=True)
        attended = [self.attention(queries, Memory(*rest)) for queries, *rest in parts]
        context, weights = (torch.cat(each) for each in zip(*attended, strict=True))
        return context, weights


class InputFeedingRecurrence(Recurrence):
    """Luong's form with the previous readout beside the embedding (Luong et al. 2015, 3.3)."""

    def __init__(self, config: DecoderConfig, *, attention: Attention) -> None:
        super().__init__(config, attention=attention)
        self.readout_projection = nn.Linear(config.readout_size, 3 * config.hidden_size, bias=False)

    def forward(self, projected: Tensor, state: DecoderState, memory: Memory) -> CellOutput:
        projected = projected + self.readout_projection(state.readout)
        hidden = self._upper_layers(self.first(projected, state.hidden[0]), state.hidden)
        return CellOutput(hidden, *self._attend(hidden[-1], memory))


def build_recurrence(config: DecoderConfig, *, attention: Attention) -> Recurrence:
    """Build the recurrence that the config's form and input feeding name."""
    forms: dict[DecoderForm, type[Recurrence]] = {
        DecoderForm.bahdanau: BahdanauRecurrence,
        DecoderForm.conditional: ConditionalRecurrence,
        DecoderForm.luong: InputFeedingRecurrence if config.input_feeding else LuongRecurrence,
    }
    with warnings.catch_warnings():
        # Without attention the context has size 0, and so have the weights that read it.
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
        return forms[config.form](config, attention=attention)
