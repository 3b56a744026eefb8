"""Score known translations: their log-probabilities and attention under teacher forcing."""

# B batch, M real tokens of the batch, N heads, T target length, S source length, V vocabulary

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.inference.ensemble import Ensemble
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search import Hypothesis
from seq2seq.special_tokens import BOS

_ROWS = 1024
"""Tokens whose logits over the vocabulary are held at once."""


@torch.inference_mode()
def score_targets(
    model: Seq2Seq | Ensemble,
    source_ids: Tensor,
    source_mask: Tensor,
    *,
    target_ids: Tensor,
    target_mask: Tensor,
) -> list[Hypothesis]:
    """Score a batch of known targets by teacher forcing: each step reads the true previous token.

    The targets come back as finished hypotheses, whose score is their log-probability. Neither
    padding nor the other sentences of the batch change a result by more than rounding.

    Args:
        model: In evaluation mode, on the device of the ids.
        source_ids: (B, S), each row ending with EOS and padded at its end.
        source_mask: (B, S) bool, True = real token.
        target_ids: (B, T), likewise.
        target_mask: (B, T) bool, True = real token.

    Raises:
        ValueError: A log-probability is NaN.
    """
    assert not model.training, "dropout would make log-probabilities random"
    previous_ids = functional.pad(target_ids[:, :-1], (1, 0), value=BOS)
    output = model(source_ids, source_mask, previous_ids)
    by_token = _log_probabilities(model, output.readouts[target_mask], target_ids[target_mask])
    # float64 keeps the sum exact to all printed digits.
    by_position = torch.zeros(target_mask.shape, dtype=torch.float64)
    by_position[target_mask.cpu()] = by_token.double().cpu()
    return [
        Hypothesis(
            ids=ids[: target_length - 1],
            score=total,
            log_probability=total,
            finished=True,
            # A clone, because a view would keep the whole batch in memory.
            attention_weights=weights[:, :target_length, :source_length].clone(),
            token_log_probabilities=values[:target_length],
        )
        for ids, total, values, weights, target_length, source_length in zip(
            target_ids.tolist(),
            by_position.sum(dim=1).tolist(),
            by_position.tolist(),
            output.attention_weights.float().cpu(),
            target_mask.sum(dim=1).tolist(),
            source_mask.sum(dim=1).tolist(),
            strict=True,
        )
    ]


def _log_probabilities(model: Seq2Seq | Ensemble, readouts: Tensor, ids: Tensor) -> Tensor:
    """Return the log-probability over the whole vocabulary of each token, (M,); refuse NaN."""
    losses = []
    for start in range(0, len(ids), _ROWS):
        rows = slice(start, start + _ROWS)
        logits = model.decoder.logits(readouts[rows]).float()  # (rows, V)
        losses.append(functional.cross_entropy(logits, ids[rows], reduction="none"))
    by_token = -torch.cat(losses)
    if by_token.isnan().any():
        raise ValueError(
            "the model's probabilities are not numbers (NaN); score with precision=fp32, or use "
            "an earlier checkpoint"
        )
    return by_token
