"""Cross-entropy over the real target tokens, with label smoothing."""

# B batch, T target length, F readout, V vocabulary, M real tokens of the batch

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from seq2seq.data import Batch
from seq2seq.model import Seq2Seq


class Loss(NamedTuple):
    """Sums over real target tokens, EOS included, in nats."""

    smoothed: Tensor
    """what training minimises"""
    cross_entropy: Tensor
    """without label smoothing, detached: what perplexity is made of"""
    weights: Tensor
    """attention, (B, N, T, S)"""


def sequence_loss(
    model: Seq2Seq, batch: Batch, *, label_smoothing: float, forced_mask: Tensor | None = None
) -> Loss:
    """Score the true targets; padding neither costs nor is computed.

    With smoothing e the target distribution is (1 - e) at the true token plus e / V everywhere
    (Szegedy et al. 2016, section 7).
    """
    output = model(batch.source_ids, batch.source_mask, batch.previous_ids, forced_mask)
    logits = model.decoder.logits(output.readouts[batch.target_mask])  # (M, V)
    log_probabilities = functional.log_softmax(logits.float(), dim=-1)
    true_ids = batch.target_ids[batch.target_mask]
    cross_entropy = functional.nll_loss(log_probabilities, true_ids, reduction="sum")
    smoothed = cross_entropy
    if label_smoothing > 0:
        uniform = -log_probabilities.sum() / log_probabilities.shape[-1]
        smoothed = (1 - label_smoothing) * cross_entropy + label_smoothing * uniform
    return Loss(smoothed, cross_entropy.detach(), output.weights.detach())
