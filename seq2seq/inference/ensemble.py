"""Several models that translate as one: at each step their probabilities are averaged."""

# B batch, R rows, S source length, T target length, F readout, N heads, V vocabulary

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from seq2seq.attention import Memory
from seq2seq.model.decoder import DecoderOutput
from seq2seq.model.decoder_state import DecoderState
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.protocols import Selectable

_Part = TypeVar("_Part", bound=Selectable)


class Parts(tuple[_Part, ...]):
    """Something that each member of an ensemble has its own of."""

    __slots__ = ()

    def select(self, rows: Tensor, /) -> "Parts[_Part]":
        """Keep the given rows or sentences of each, in the given order."""
        return Parts(part.select(rows) for part in self)


class EnsembleStep(NamedTuple):
    """What one step yields; its logits are log-probabilities."""

    logits: Tensor  # (R, V)
    state: Parts[DecoderState]
    attention_weights: Tensor  # (R, N, S), N of all members


class AllAttention(NamedTuple):
    """The attention of all members."""

    num_heads: int


class Ensemble(nn.Module):
    """Looks to searches and to forced decoding like one model, which is its own decoder.

    A token is as probable as it is to the members on average. The members may differ in all but
    the vocabularies. Their attention heads stand side by side, those of the first member first;
    one without heads adds none, and in a mean over heads a member counts by how many it has.
    """

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        sizes = {member.decoder.output.out_features for member in members}
        assert len(sizes) == 1, "members share their tokenizers"
        # A ModuleList does not say of which type its modules are.
        self.members: Iterable[Seq2Seq] = nn.ModuleList(members)  # type: ignore[assignment]
        self.attention = AllAttention(sum(member.attention.num_heads for member in members))
        self._readout_sizes = [member.decoder.config.readout_size for member in members]

    @property
    def decoder(self) -> "Ensemble":
        """Return what steps and turns readouts into logits."""
        return self

    def encode(
        self, source_ids: Tensor, source_mask: Tensor
    ) -> tuple[Parts[Memory], Parts[DecoderState]]:
        """Read the sources; arguments as of `Seq2Seq.encode`."""
        encoded = [member.encode(source_ids, source_mask) for member in self.members]
        return Parts(memory for memory, _ in encoded), Parts(state for _, state in encoded)

    def step(
        self, state: Parts[DecoderState], previous_ids: Tensor, memory: Parts[Memory]
    ) -> EnsembleStep:
        """Predict the next token of every row; arguments as of `AttnDecoderRNN.step`."""
        steps = [
            member.decoder.step(its_state, previous_ids, its_memory)
            for member, its_state, its_memory in zip(self.members, state, memory, strict=True)
        ]
        return EnsembleStep(
            _log_mean(step.logits for step in steps),
            Parts(step.state for step in steps),
            torch.cat([step.attention_weights for step in steps], dim=1),
        )

    def forward(
        self, source_ids: Tensor, source_mask: Tensor, previous_ids: Tensor
    ) -> DecoderOutput:
        """Read known targets; readouts (B, T, F) and heads are those of all members."""
        outputs = [member(source_ids, source_mask, previous_ids) for member in self.members]
        return DecoderOutput(
            torch.cat([output.readouts for output in outputs], dim=-1),
            torch.cat([output.attention_weights for output in outputs], dim=1),
        )

    def logits(self, readouts: Tensor) -> Tensor:
        """Turn readouts of all members (..., F) into log-probabilities (..., V)."""
        parts = torch.split(readouts, self._readout_sizes, dim=-1)
        return _log_mean(
            member.decoder.logits(part) for member, part in zip(self.members, parts, strict=True)
        )


def join_models(models: Sequence[Seq2Seq]) -> Seq2Seq | Ensemble:
    """Return the ensemble of the models; that of one is the model itself."""
    return models[0] if len(models) == 1 else Ensemble(models)


def _log_mean(logits_of_members: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean probability, all (..., V)."""
    # Through logarithms, for the mean of what is next to impossible must not become 0.
    first, *others = (torch.log_softmax(logits.float(), dim=-1) for logits in logits_of_members)
    total = first
    for log_probabilities in others:
        total = torch.logaddexp(total, log_probabilities)
    return total - math.log(1 + len(others))
