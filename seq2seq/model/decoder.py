"""The attention decoder: one step at a time, or a whole known target at once."""

# B batch, R rows (sentences, or K hypotheses of each sentence), S source length, T target length,
# E embedding, H hidden, F readout, V vocabulary, N heads

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, Memory
from seq2seq.model.config import ModelConfig
from seq2seq.model.recurrence import (
    DecoderOutput,
    DecoderState,
    Readout,
    RecurrenceStep,
    build_recurrence,
    for_loop,
    join_steps,
)
from seq2seq.runtime.kernels.operations import Dropout
from seq2seq.special_tokens import NEVER_PREDICTED


class DecoderStep(NamedTuple):
    """Result of one step."""

    logits: Tensor  # (R, V)
    state: DecoderState
    attention_weights: Tensor  # (R, N, S)


class TiedOutput(nn.Linear):
    """An output layer whose weight is the first rows of an embedding."""

    def __init__(self, embedding: nn.Embedding, out_features: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = embedding.embedding_dim, out_features
        self.embedding = embedding
        self.bias = nn.Parameter(torch.zeros(out_features))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Return the rows, (out_features, in_features)."""
        return self.embedding.weight[: self.out_features]

    def copied(self) -> nn.Linear:
        """Return a layer with a copy of the weight, for exporting it as a constant."""
        layer = nn.Linear(self.in_features, self.out_features)
        layer.weight, layer.bias = nn.Parameter(self.weight.detach().clone()), self.bias
        return layer


class AttnDecoderRNN(nn.Module):
    """Predicts each target token from the previous tokens and an attended source.

    `step` defines the decoder. `forward` computes the same values for a known target. It computes
    everything that does not depend on the state once for all steps.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        attention: Attention,
        embedding: nn.Embedding,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.word_dropout = nn.Dropout1d(config.word_dropout)
        self.embedding_dropout = Dropout(config.dropout)
        self.recurrence = build_recurrence(config, attention=attention)
        self.readout = Readout(config, context_size=attention.context_size)
        self.readout_size = config.readout_size
        self.readout_dropout = Dropout(config.dropout)
        self.output = output

    def initial_state(self, hidden: tuple[Tensor, ...], memory: Memory) -> DecoderState:
        """Return the state before the first step.

        Args:
            hidden: One hidden state (B, H) per layer.
            memory: Memory of the same B sentences.
        """
        # len(hidden[0]) would be a constant for torch.export, which then traces twice.
        zero_readout = hidden[0].new_zeros(hidden[0].shape[0], self.readout_size)
        feedback = self.recurrence.feedback(zero_readout)
        attended = self.recurrence.attention.start(memory)
        return DecoderState(hidden, feedback, self.readout.start(hidden[-1]), attended)

    def step(self, state: DecoderState, previous_ids: Tensor, memory: Memory) -> DecoderStep:
        """Predict the next token of every row.

        Args:
            state: State of R rows, from `initial_state` or the previous step.
            previous_ids: Previous token of every row, (R,).
            memory: Memory of B sentences; R is a multiple of B, and the rows of a sentence are
                adjacent.
        """
        output, state = self._read(previous_ids, state, memory)
        return DecoderStep(self.logits(output.readouts), state, output.attention_weights)

    def forward(self, previous_ids: Tensor, state: DecoderState, memory: Memory) -> DecoderOutput:
        """Read a known target, feeding the true previous tokens.

        Args:
            previous_ids: BOS, then the target without EOS, (B, T).
            state: Result of `initial_state`.
            memory: Memory of the same B sentences.
        """
        embedded = self._embed(previous_ids)
        projected = self.recurrence.project(embedded)  # (B, T, 3H)
        if not self.recurrence.reads_readout:
            top, contexts, weights = self.recurrence.run(projected, state, memory)
            return DecoderOutput(self.readout(top, contexts, embedded), weights, contexts)
        outputs: list[DecoderOutput] = []
        memory = for_loop(memory)
        for each in zip(embedded.unbind(1), projected.unbind(1), strict=True):
            output, state = self._step(*each, state, memory)
            outputs.append(output)
        return join_steps(outputs)

    def sample_forward(
        self, previous_ids: Tensor, state: DecoderState, memory: Memory, *, forced_mask: Tensor
    ) -> DecoderOutput:
        """Read a target, feeding some of the model's own best tokens.

        Scheduled sampling (Bengio et al. 2015, 2.4). The first step always reads BOS. A predicted
        token is the token that greedy search would choose, never PAD or BOS.

        Args:
            previous_ids: As in `forward`.
            state: As in `forward`.
            memory: As in `forward`.
            forced_mask: (B, T) bool; True feeds the true token, False the predicted one.
        """
        outputs: list[DecoderOutput] = []
        fed_ids = previous_ids[:, 0]
        for step, forced in enumerate(forced_mask.unbind(1)):
            if step > 0:
                with torch.no_grad():
                    logits = self.logits(outputs[-1].readouts)
                    logits[:, NEVER_PREDICTED].fill_(-torch.inf)
                    predicted_ids = logits.argmax(-1)
                fed_ids = torch.where(forced, previous_ids[:, step], predicted_ids)
            output, state = self._read(fed_ids, state, memory)
            outputs.append(output)
        return join_steps(outputs)

    def logits(self, readouts: Tensor) -> Tensor:
        """Turn readouts (..., F) into logits (..., V)."""
        logits: Tensor = self.output(self.readout_dropout(readouts))
        return logits

    def _embed(self, ids: Tensor) -> Tensor:
        """Embed token ids (B, T) -> (B, T, E)."""
        embedded: Tensor = self.embedding_dropout(self.word_dropout(self.embedding(ids)))
        return embedded

    def _read(
        self, ids: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderOutput, DecoderState]:
        """Read one token (R,) of every row."""
        embedded = self._embed(ids.unsqueeze(1)).squeeze(1)
        return self._step(embedded, self.recurrence.project(embedded), state, memory)

    def _step(
        self, embedded: Tensor, projected: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderOutput, DecoderState]:
        """Return the output of a step, without the axis T, and the new state."""
        step: RecurrenceStep = self.recurrence(projected, state, memory)
        top = self.recurrence.top(step.hidden)
        readout, past = self.readout.step(top, step.context, embedded, state.past)
        after = DecoderState(step.hidden, self.recurrence.feedback(readout), past, step.attended)
        return DecoderOutput(readout, step.attention_weights, step.context), after
