"""Translate with several models as one, by averaging their probabilities at each step."""

# B batch, R rows, S source length, T target length, F readout, N heads, V vocabulary

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Memory
from seq2seq.model.recurrence import DecoderOutput, DecoderState
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.searches import Entries

_Part = TypeVar("_Part", bound=Entries)


class Parts(tuple[_Part, ...]):
    """A tuple with one value for each member of an ensemble."""

    __slots__ = ()

    def select(self, rows: Tensor, /) -> "Parts[_Part]":
        """Select rows or sentences in the value of each member."""
        return Parts(part.select(rows) for part in self)


class EnsembleStep(NamedTuple):
    """The output of one step; the logits are log-probabilities."""

    logits: Tensor  # (R, V)
    state: Parts[DecoderState]
    attention_weights: Tensor  # (R, N, S), heads of all members


class EnsembleAttention(NamedTuple):
    """The total number of attention heads of the members."""

    num_heads: int


class Ensemble(nn.Module):
    """Several models that act as one model with the mean of their probabilities.

    The members may differ in everything except their vocabularies. Their attention heads are
    concatenated in the order of the members, so a mean over heads weights each member by its
    number of heads.

    Args:
        members: Models that share both tokenizers.
    """

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        sizes = {member.decoder.output.out_features for member in members}
        assert len(sizes) == 1, "all members must have the same tokenizers"
        # A ModuleList is not generic in the type of its modules.
        self.members: Iterable[Seq2Seq] = nn.ModuleList(members)  # type: ignore[assignment]
        self.attention = EnsembleAttention(sum(member.attention.num_heads for member in members))
        self._readout_sizes = [member.decoder.readout_size for member in members]

    @property
    def decoder(self) -> "Ensemble":
        """Return this object, which implements `step` and `logits` itself."""
        return self

    def encode(
        self, source_ids: Tensor, source_mask: Tensor
    ) -> tuple[Parts[Memory], Parts[DecoderState]]:
        """Encode the sources; arguments as in `Seq2Seq.encode`."""
        encoded = [member.encode(source_ids, source_mask) for member in self.members]
        return Parts(memory for memory, _ in encoded), Parts(state for _, state in encoded)

    def step(
        self, state: Parts[DecoderState], previous_ids: Tensor, memory: Parts[Memory]
    ) -> EnsembleStep:
        """Predict the next token of every row; arguments as in `AttnDecoderRNN.step`."""
        steps = [
            member.decoder.step(member_state, previous_ids, member_memory)
            for member, member_state, member_memory in zip(self.members, state, memory, strict=True)
        ]
        return EnsembleStep(
            _log_mean(step.logits for step in steps),
            Parts(step.state for step in steps),
            torch.cat([step.attention_weights for step in steps], dim=1),
        )

    def forward(
        self, source_ids: Tensor, source_mask: Tensor, previous_ids: Tensor
    ) -> DecoderOutput:
        """Read known targets; readouts, heads and contexts are concatenated over members."""
        outputs = [member(source_ids, source_mask, previous_ids) for member in self.members]
        readouts, weights, contexts = zip(*outputs, strict=True)
        return DecoderOutput(
            torch.cat(readouts, -1), torch.cat(weights, 1), torch.cat(contexts, -1)
        )

    def logits(self, readouts: Tensor) -> Tensor:
        """Return log-probabilities (..., V) for the readouts of all members (..., F)."""
        parts = torch.split(readouts, self._readout_sizes, dim=-1)
        return _log_mean(
            member.decoder.logits(part) for member, part in zip(self.members, parts, strict=True)
        )


def join_models(models: Sequence[Seq2Seq]) -> Seq2Seq | Ensemble:
    """Return an ensemble of the models, or the model itself if there is only one."""
    return models[0] if len(models) == 1 else Ensemble(models)


def _log_mean(logits_of_members: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean probability over members, (..., V)."""
    # logaddexp keeps tiny probabilities from becoming 0.
    first, *others = (torch.log_softmax(logits.float(), dim=-1) for logits in logits_of_members)
    total = first
    for log_probabilities in others:
        total = torch.logaddexp(total, log_probabilities)
    return total - math.log(1 + len(others))
