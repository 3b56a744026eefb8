"""The attention decoder: one step at a time, or a whole known target at once."""

# B batch, R rows, T target length, S source length, E embedding, H hidden, F readout,
# V vocabulary, N heads

import contextlib
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention import Attention, Memory
from seq2seq.kernels.dropout import Dropout
from seq2seq.kernels.loop_gradients import LoopProducts
from seq2seq.model.decoder_cell import (
    CellOutput,
    DecoderConfig,
    DecoderState,
    LuongRecurrence,
    build_recurrence,
)
from seq2seq.model.self_attention import CausalSelfAttentionLayer, NoSelfAttention


class DecoderStep(NamedTuple):
    """What one step yields."""

    logits: Tensor  # (R, V)
    state: DecoderState
    attention_weights: Tensor  # (R, N, S)


class DecoderOutput(NamedTuple):
    """What a whole target yields; `AttnDecoderRNN.logits` turns readouts into logits."""

    readouts: Tensor  # (B, T, F)
    attention_weights: Tensor  # (B, N, T, S)


class AttnDecoderRNN(nn.Module):
    """Predict each target token from the tokens before it and an attended source.

    `step` is the definition. `forward` computes the same for a known target, with everything
    that needs no state done once for all steps.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        attention: Attention,
        embedding: nn.Embedding,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.word_dropout = nn.Dropout1d(config.word_dropout)
        self.embedding_dropout = Dropout(config.embedding_dropout)
        self.recurrence = build_recurrence(config, attention=attention)
        self.self_attention = (
            CausalSelfAttentionLayer(
                config.hidden_size,
                num_heads=config.self_attention_heads,
                dropout=config.hidden_dropout,
            )
            if config.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.hidden_dropout)
        features = config.hidden_size + attention.context_size + config.embedding_size
        self.readout_projection = nn.Linear(features, config.readout_size)
        self.readout_norm = (
            nn.LayerNorm(config.readout_size) if config.layer_norm else nn.Identity()
        )
        self.readout_dropout = Dropout(config.readout_dropout)
        self.output = output

    def initial_state(self, hidden: tuple[Tensor, ...]) -> DecoderState:
        """Start from one hidden state (B, H) per layer; the first step is fed a zero readout."""
        size = self.config.readout_size if self.config.input_feeding else 0
        readout = hidden[0].new_zeros(hidden[0].shape[0], size)
        return DecoderState(hidden, readout, self.self_attention.start(hidden[-1]))

    def step(self, state: DecoderState, previous_ids: Tensor, memory: Memory) -> DecoderStep:
        """Predict the next token of every row.

        Args:
            state: what `initial_state` or the step before returned, of R rows.
            previous_ids: the token before, (R,).
            memory: of B sentences; R is a multiple of B and a sentence's rows stand together.
        """
        readout, state, weights = self._step(state, previous_ids, memory)
        return DecoderStep(self.logits(readout), state, weights)

    def forward(self, previous_ids: Tensor, state: DecoderState, memory: Memory) -> DecoderOutput:
        """Read a known target, each step fed the true token before it (teacher forcing).

        Args:
            previous_ids: BOS and the target without its last token, (B, T).
            state: what `initial_state` returned.
            memory: of the same B sentences.
        """
        embedded = self._embed(previous_ids)  # (B, T, E)
        projected = self.recurrence.project(embedded)  # (B, T, 3H)
        if isinstance(self.recurrence, LuongRecurrence):
            with self._loop_products(memory, num_steps=previous_ids.shape[1]):
                hidden = self.recurrence.unroll(projected, state)
            context, weights = self.recurrence.attend(hidden, memory)
            refined = self.self_attention(hidden)
            return DecoderOutput(self._readout(refined, context, embedded), weights)
        advances: list[CellOutput] = []
        fed: list[Tensor] = []
        with self._loop_products(memory, num_steps=previous_ids.shape[1]):
            for embedded_step, projected_step in zip(
                embedded.unbind(1), projected.unbind(1), strict=True
            ):
                advance = self.recurrence(projected_step, state, memory)
                advances.append(advance)
                state = state._replace(hidden=advance.hidden)
                if self.config.input_feeding:
                    refined, past = self.self_attention.step(advance.hidden[-1], state.past)
                    fed.append(self._readout(refined, advance.context, embedded_step))
                    state = state._replace(readout=fed[-1], past=past)
        weights = torch.stack([advance.attention_weights for advance in advances], dim=2)
        if self.config.input_feeding:
            return DecoderOutput(torch.stack(fed, dim=1), weights)
        hidden = torch.stack([advance.hidden[-1] for advance in advances], dim=1)
        context = torch.stack([advance.context for advance in advances], dim=1)
        refined = self.self_attention(hidden)
        return DecoderOutput(self._readout(refined, context, embedded), weights)

    def sample_forward(
        self, previous_ids: Tensor, state: DecoderState, memory: Memory, *, forced_mask: Tensor
    ) -> DecoderOutput:
        """Read a target, feeding the model's own best token where `forced_mask` is False.

        Scheduled sampling (Bengio et al. 2015, 2.4). The first step is always fed BOS.

        Args:
            previous_ids: as in `forward`.
            state: as in `forward`.
            memory: as in `forward`.
            forced_mask: (B, T) bool, True = feed the true token.
        """
        readouts: list[Tensor] = []
        weights_of_steps: list[Tensor] = []
        fed_ids = previous_ids[:, 0]
        with self._loop_products(memory, num_steps=previous_ids.shape[1]):
            for step, forced in enumerate(forced_mask.unbind(1)):
                if step > 0:
                    with torch.no_grad():
                        predicted_ids = self.logits(readouts[-1]).argmax(-1)
                    fed_ids = torch.where(forced, previous_ids[:, step], predicted_ids)
                readout, state, step_weights = self._step(state, fed_ids, memory)
                readouts.append(readout)
                weights_of_steps.append(step_weights)
        return DecoderOutput(torch.stack(readouts, dim=1), torch.stack(weights_of_steps, dim=2))

    def logits(self, readouts: Tensor) -> Tensor:
        """Turn readouts (..., F) into logits (..., V)."""
        logits: Tensor = self.output(self.readout_dropout(readouts))
        return logits

    @staticmethod
    def _loop_products(
        memory: Memory, *, num_steps: int
    ) -> contextlib.AbstractContextManager[object]:
        if not torch.is_grad_enabled():
            return contextlib.nullcontext()
        return LoopProducts(memory.keys, memory.values, num_steps=num_steps)

    def _embed(self, ids: Tensor) -> Tensor:
        """Embed tokens (B, T) -> (B, T, E)."""
        embedded: Tensor = self.embedding_dropout(self.word_dropout(self.embedding(ids)))
        return embedded

    def _step(
        self, state: DecoderState, previous_ids: Tensor, memory: Memory
    ) -> tuple[Tensor, DecoderState, Tensor]:
        """Return readout (R, F), new state and weights (R, N, S) of a step."""
        embedded = self._embed(previous_ids.unsqueeze(1)).squeeze(1)
        advance: CellOutput = self.recurrence(self.recurrence.project(embedded), state, memory)
        refined, past = self.self_attention.step(advance.hidden[-1], state.past)
        readout = self._readout(refined, advance.context, embedded)
        fed = readout if self.config.input_feeding else state.readout
        return readout, DecoderState(advance.hidden, fed, past), advance.attention_weights

    def _readout(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        """Join what the step knows: (..., H), (..., C), (..., E) -> (..., F)."""
        joined = torch.cat((self.hidden_dropout(hidden), context, embedded), dim=-1)
        projected = self.readout_projection(joined).to(hidden.dtype)
        readout: Tensor = self.readout_norm(projected).tanh_()
        return readout
