"""The model in the way of the usual tutorial: everything inside the loop, one step after another.

The second yardstick of train_speed.py, and the text against which the fast path is tested.
"""

# B batch, T target length, V vocabulary

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.data import Batch
from seq2seq.model.seq2seq import Seq2Seq


def plain_loss(model: Seq2Seq, batch: Batch, *, label_smoothing: float) -> Tensor:
    """Return the smoothed loss of a batch, summed over real target tokens, in nats."""
    encoder = model.encoder
    embedded = encoder.embedding_dropout(encoder.word_dropout(encoder.embedding(batch.source_ids)))
    states, last = encoder.gru.forward_packed(embedded, batch.source_mask)  # torch's own loop
    states = encoder.self_attention(encoder.norm(states), batch.source_mask)
    states = encoder.hidden_dropout(states) * batch.source_mask.unsqueeze(-1)
    hidden = model.bridge(states, batch.source_mask, last)
    state = model.decoder.initial_state(tuple(hidden.unbind(1)))
    loss: Tensor = states.new_zeros(())
    for step in range(batch.target_ids.shape[1]):
        memory = model.attention.prepare(states, batch.source_mask)
        logits, state, _ = model.decoder.step(state, batch.previous_ids[:, step], memory)
        losses = functional.cross_entropy(
            logits.float() if logits.dtype != torch.float64 else logits,
            batch.target_ids[:, step],
            label_smoothing=label_smoothing,
            reduction="none",
        )
        loss = loss + (losses * batch.target_mask[:, step]).sum()
    return loss
