"""The state that the decoder passes from step to step."""

# R rows (sentences, or K hypotheses of each sentence), H hidden, F readout, t steps so far

from typing import NamedTuple

from torch import Tensor

from seq2seq.attention import AttentionState, Past
from seq2seq.model.sequence_dropout import DropoutFactors


class DecoderState(NamedTuple):
    """Everything that a step needs of the steps before it."""

    hidden: tuple[Tensor, ...]  # one (R, H) per layer, the top layer last
    feedback: Tensor  # the previous readout (R, F) with input feeding, else (R, 0)
    past: Past  # of the decoder's self-attention, (R, t, H), else (R, 0, 0)
    attended: AttentionState  # of the attention: (R, ...) each, none for most types
    dropout: DropoutFactors = DropoutFactors()  # the same at every step; empty for most models

    def select(self, rows: Tensor) -> "DecoderState":
        """Return the state of the given rows, in the given order."""
        hidden = tuple(layer.index_select(0, rows) for layer in self.hidden)
        attended = tuple(part.index_select(0, rows) for part in self.attended)
        feedback, past = self.feedback.index_select(0, rows), self.past.select(rows)
        return DecoderState(hidden, feedback, past, attended, self.dropout.select(rows))
