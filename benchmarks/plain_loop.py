"""Updates as the usual tutorial makes them: every computation of the decoder inside the step loop.

`training.kernels=plain` replaces single operations by torch's own, but still embeds, projects and
scores whole targets at once. This loop projects the keys, embeds a token and computes logits and
loss anew in each step, padding included. The encoder is torch.nn.GRU on packed sequences.
"""

# B batch, T target length, V vocabulary, L layers, H hidden of one direction

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.config.schema import TrainConfig
from seq2seq.data.batching import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Numerics


class PlainUpdater:
    """The step loop, gradient clipping and Adam, with the interface of `Updater`."""

    def __init__(self, config: TrainConfig, *, model: Seq2Seq, numerics: Numerics) -> None:
        self._training = config.training
        self._model = model
        self._numerics = numerics
        self._optimizer = torch.optim.Adam(model.parameters())
        # cuDNN copies the weights at every call unless one block has those of all directions.
        nn.GRU.flatten_parameters(model.encoder.gru)

    def update_weights(
        self, batches: Sequence[Batch], *, update: int, learning_rate: float, num_tokens: int
    ) -> None:
        """Make an update with the batches; the loss is averaged over `num_tokens`."""
        self._model.train()
        for batch in (each.to(self._numerics.device) for each in batches):
            with self._numerics.autocast():
                smoothing = self._training.label_smoothing
                loss = plain_loss(self._model, batch, label_smoothing=smoothing)
            (loss / num_tokens).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()


def packed_states(gru: nn.GRU, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `BidirectionalGRU.forward` does, by torch's own loop or cuDNN."""
    lengths = mask.sum(1).cpu()
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    packed_rows, last = nn.GRU.forward(gru, packed)
    states, _ = pad_packed_sequence(packed_rows, batch_first=True, total_length=inputs.shape[1])
    return states, last[-2:].transpose(0, 1).flatten(1)  # (2L, B, H) -> (B, 2H)


def plain_loss(model: Seq2Seq, batch: Batch, *, label_smoothing: float) -> Tensor:
    """Return the smoothed loss of a batch, summed over real target tokens, in nats."""
    encoder = model.encoder
    embedded = encoder.embedding_dropout(encoder.word_dropout(encoder.embedding(batch.source_ids)))
    states, last = packed_states(encoder.gru, embedded, batch.source_mask)
    states = encoder.self_attention(encoder.norm(states), batch.source_mask)
    states = encoder.hidden_dropout(states) * batch.source_mask.unsqueeze(-1)
    hidden = model.bridge(last)
    memory = model.attention.prepare(states, batch.source_mask)
    state = model.decoder.initial_state(tuple(hidden.unbind(1)), memory)
    loss: Tensor = states.new_zeros(())
    for step in range(batch.target_ids.shape[1]):
        memory = model.attention.prepare(states, batch.source_mask)
        logits, state, _ = model.decoder.step(state, batch.previous_ids[:, step], memory)  # (B, V)
        losses = functional.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            batch.target_ids[:, step],
            label_smoothing=label_smoothing,
            reduction="none",
        )
        loss = loss + (losses * batch.target_mask[:, step]).sum()
    return loss
