"""Read a known translation as if the model had chosen it: its probability and its attention."""

# B batch, M real tokens of the batch, N heads, T target length, S source length, V vocabulary

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.inference.ensemble import Ensemble
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.special_tokens import BOS, PAD

_ROWS = 1024
"""tokens whose probabilities over the vocabulary are held at once"""


class Forced(NamedTuple):
    """What the model makes of a known translation."""

    log_probability: float
    """of all tokens and EOS"""
    attention_weights: Tensor
    """attention (N, T, S) on the CPU: T tokens and EOS; S tokens and EOS"""
    token_log_probabilities: Sequence[float]
    """of each token and EOS; their sum is the log-probability"""


@torch.inference_mode()
def force(
    model: Seq2Seq | Ensemble,
    source_ids: Tensor,
    source_mask: Tensor,
    *,
    target_ids: Tensor,
    target_mask: Tensor,
) -> list[Forced]:
    """Read a batch of sources with their translations, each step fed the true token before it.

    What a pair gets depends neither on its neighbours nor on their padding.

    Args:
        model: in evaluation mode, on the device of the ids.
        source_ids: (B, S), each row ending with EOS and padded at its end.
        source_mask: (B, S) bool, True = real token.
        target_ids: (B, T), likewise.
        target_mask: (B, T) bool, True = real token.

    Raises:
        ValueError: the model gives probabilities that are not numbers.
    """
    assert not model.training, "dropout would draw other probabilities each time"
    previous_ids = functional.pad(target_ids[:, :-1], (1, 0), value=BOS)
    output = model(source_ids, source_mask, previous_ids.masked_fill(~target_mask, PAD))
    by_token = _log_probabilities(model, output.readouts[target_mask], target_ids[target_mask])
    if by_token.isnan().any():
        raise ValueError(
            "the model's probabilities are not numbers (NaN); read the reference with "
            "precision=fp32, or take an earlier checkpoint"
        )
    by_place = torch.zeros(target_mask.shape, dtype=torch.float64)  # so that no rounding shows
    by_place[target_mask.cpu()] = by_token.double().cpu()
    return [
        # A copy, for a part would keep the whole batch in memory.
        Forced(total, weights[:, :target_length, :source_length].clone(), places[:target_length])
        for total, places, weights, target_length, source_length in zip(
            by_place.sum(dim=1).tolist(),
            by_place.tolist(),
            output.attention_weights.float().cpu(),
            target_mask.sum(dim=1).tolist(),
            source_mask.sum(dim=1).tolist(),
            strict=True,
        )
    ]


def _log_probabilities(model: Seq2Seq | Ensemble, readouts: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probability, over the whole vocabulary, of each token: (M,)."""
    losses = []
    for start in range(0, len(ids), _ROWS):
        rows = slice(start, start + _ROWS)
        logits = model.decoder.logits(readouts[rows]).float()  # (rows, V)
        losses.append(functional.cross_entropy(logits, ids[rows], reduction="none"))
    return -torch.cat(losses)
