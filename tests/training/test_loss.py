"""The loss is the cross-entropy of the real tokens, whoever they share a batch with."""

import pytest
import torch
from tiny_models import (
    TARGET_VOCABULARY_SIZE,
    TinyBatch,
    attention_config,
    gradients_of,
    summed_loss,
    tiny_batch,
    tiny_model,
)
from torch.nn import functional

from seq2seq.data import Batch
from seq2seq.model import Seq2Seq
from seq2seq.training.loss import Loss, sequence_loss


def loss_of(model: Seq2Seq, batch: TinyBatch, *, label_smoothing: float = 0.0) -> Loss:
    rows = torch.arange(batch.source_ids.shape[0])
    return sequence_loss(model, Batch(*batch, rows), label_smoothing=label_smoothing)


def model_of(name: str = "additive") -> Seq2Seq:
    return tiny_model(attention_config(name)).eval()


def test_cross_entropy_is_summed_over_real_tokens():
    model, batch = model_of(), tiny_batch()

    loss = loss_of(model, batch)

    expected = summed_loss(model, batch)
    torch.testing.assert_close(
        loss.cross_entropy, expected.detach(), rtol=1e-6, atol=0.0, check_dtype=False
    )
    torch.testing.assert_close(loss.smoothed.detach(), loss.cross_entropy)


@pytest.mark.parametrize("smoothing", [0.1, 0.4])
def test_smoothing_is_that_of_torch(smoothing):
    model, batch = model_of(), tiny_batch()

    loss = loss_of(model, batch, label_smoothing=smoothing)

    readouts = model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    expected = functional.cross_entropy(
        model.decoder.logits(readouts)[batch.target_mask].float(),
        batch.target_ids[batch.target_mask],
        label_smoothing=smoothing,
        reduction="sum",
    )
    torch.testing.assert_close(loss.smoothed, expected)


def test_smoothing_follows_its_definition():
    model, batch = model_of(), tiny_batch()

    loss = loss_of(model, batch, label_smoothing=0.3)

    readouts = model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    expected = 0.0
    logs = torch.log_softmax(model.decoder.logits(readouts), dim=-1)
    for row, column in batch.target_mask.nonzero().tolist():
        for piece in range(TARGET_VOCABULARY_SIZE):
            wanted = 0.3 / TARGET_VOCABULARY_SIZE
            wanted += 0.7 * (piece == batch.target_ids[row, column].item())
            expected -= wanted * logs[row, column, piece].item()
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-5)


def test_cross_entropy_is_reported_without_smoothing():
    model, batch = model_of(), tiny_batch()

    smoothed, plain = loss_of(model, batch, label_smoothing=0.3), loss_of(model, batch)

    assert torch.equal(smoothed.cross_entropy, plain.cross_entropy)
    assert not torch.equal(smoothed.smoothed, plain.smoothed)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_padding_changes_neither_loss_nor_gradients(smoothing):
    model = model_of()

    losses = [
        loss_of(model, tiny_batch(extra=extra), label_smoothing=smoothing).smoothed
        for extra in (0, 3)
    ]

    torch.testing.assert_close(losses[0], losses[1])
    first, second = (gradients_of(loss, model) for loss in losses)
    for name, gradient in first.items():
        torch.testing.assert_close(gradient, second[name], rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("name", ["none", "dot", "multihead"])
def test_the_loss_of_a_batch_is_the_sum_over_its_pairs(name):
    model, batch = model_of(name), tiny_batch()

    together = loss_of(model, batch, label_smoothing=0.1)

    alone = [loss_of(model, batch.row(i), label_smoothing=0.1) for i in range(3)]
    torch.testing.assert_close(together.smoothed, sum(each.smoothed for each in alone))
    torch.testing.assert_close(
        together.cross_entropy, torch.stack([each.cross_entropy for each in alone]).sum()
    )


def test_what_stands_in_padding_costs_nothing():
    model, batch = model_of(), tiny_batch()
    changed = batch._replace(target_ids=batch.target_ids.masked_fill(~batch.target_mask, 7))

    assert torch.equal(loss_of(model, batch).smoothed, loss_of(model, changed).smoothed)


def test_weights_are_those_of_attention_and_carry_no_gradient():
    model, batch = model_of("multihead"), tiny_batch()

    loss = loss_of(model, batch)

    assert loss.weights.shape == (3, model.attention.num_heads, 4, 5)
    assert not loss.weights.requires_grad
    assert not loss.cross_entropy.requires_grad


def test_an_unforced_token_is_the_models_own():
    model, batch = model_of(), tiny_batch()
    rows = torch.arange(3)
    unforced = torch.zeros_like(batch.target_mask)

    free = sequence_loss(model, Batch(*batch, rows), label_smoothing=0.0, forced_mask=unforced)

    other = batch._replace(
        previous_ids=torch.cat((batch.previous_ids[:, :1], batch.previous_ids[:, 1:] * 0 + 5), 1)
    )
    same = sequence_loss(model, Batch(*other, rows), label_smoothing=0.0, forced_mask=unforced)
    assert torch.equal(free.smoothed, same.smoothed)
    assert not torch.equal(free.smoothed, loss_of(model, batch).smoothed)
