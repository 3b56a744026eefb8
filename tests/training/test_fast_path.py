import copy
import itertools

import pytest
import torch
from tiny_attention import attention_config
from tiny_graphs import node_counts
from tiny_models import FORMS, assert_gradients_close, gradients_of, tiny_batch, tiny_model
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import load_config
from seq2seq.data.batching import Batch
from seq2seq.model.config import Bridge
from seq2seq.special_tokens import BOS, PAD
from seq2seq.training.loss import training_loss

# B=2: so few rows that the gradients of all matrices that a step multiplies by wait for its loop
SMOOTHING = 0.1
CONFIG = load_config(f"training.label_smoothing={SMOOTHING}").training
BUILDS = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "normalised": {"layer_norm": True},
    "self-attention": {"self_attention": True},
    "everything": {"num_layers": 2, "layer_norm": True, "self_attention": True},
}
TYPES = sorted(attention_config_types())
every_form = pytest.mark.parametrize("form", FORMS)


def combinations(builds):
    """Return each type in one form, the first one in all; the builds go round.

    A kernel knows nothing of the type of attention.
    """
    chosen = itertools.cycle(builds)
    return pytest.mark.parametrize(
        ("name", "form", "build"),
        [
            (name, form, next(chosen))
            for i, name in enumerate(TYPES)
            for j, form in enumerate(FORMS)
            if i == 0 or j == i % len(FORMS)
        ],
        ids=str,
    )


class PackedGRU(nn.GRU):
    """torch's own layers over packed sequences."""

    def forward(self, inputs, mask):
        packed = pack_padded_sequence(inputs, mask.sum(1), batch_first=True, enforce_sorted=False)
        found, last = super().forward(packed)
        states, _ = pad_packed_sequence(found, batch_first=True, total_length=inputs.shape[1])
        return states, torch.cat((last[-2], last[-1]), dim=1)


def plain_copy(model):
    """Return a model whose encoder is torch's."""
    copied = copy.deepcopy(model)
    ours, dtype = model.encoder.gru, next(model.parameters()).dtype
    sizes = (ours.input_size, ours.hidden_size, ours.num_layers)
    copied.encoder.gru = PackedGRU(*sizes, bidirectional=True, batch_first=True, dtype=dtype)
    copied.encoder.gru.load_state_dict(ours.state_dict())
    return copied


def batch_of_two():
    return tiny_batch((5, 3), (3, 4))


def fast_loss(model, batch, forced_mask=None):
    rows = torch.arange(len(batch.source_ids))
    return training_loss(model, Batch(*batch, rows), CONFIG, forced_mask=forced_mask).objective


def plain_loss(model, batch, forced_mask=None):
    """Predict one token after the other, everything inside the loop, and score all logits."""
    memory, state = model.encode(batch.source_ids, batch.source_mask)
    logits = []
    for place, previous_ids in enumerate(batch.previous_ids.unbind(1)):
        if forced_mask is not None and place > 0:
            best_ids = logits[-1].index_fill(1, torch.tensor([PAD, BOS]), -torch.inf).argmax(-1)
            previous_ids = torch.where(forced_mask[:, place], previous_ids, best_ids)
        step = model.decoder.step(state, previous_ids, memory)
        state = step.state
        logits.append(step.logits)
    return functional.cross_entropy(
        torch.stack(logits, dim=1)[batch.target_mask],
        batch.target_ids[batch.target_mask],
        label_smoothing=SMOOTHING,
        reduction="sum",
    )


def assert_is_fast(loss, *, form, layer_norm):
    """Check that the graph is the one that this module is about."""
    nodes = node_counts(loss)
    assert nodes["_VocabularyLossBackward"] == 1
    # Both directions of the encoder, and a decoder whose states depend on no context; what is
    # normalised is a loop.
    is_unrolled = form == "luong" and not layer_norm
    assert nodes["_UnrollBackward"] >= 2 + is_unrolled


@combinations(BUILDS)
def test_loss_and_gradients_are_those_of_the_plain_loop(name, form, build):
    assert_equals_the_plain_loop(name, form, build, dtype=torch.float64, tolerance=1e-10)


@every_form
def test_float32_differs_from_the_plain_loop_by_rounding(form):
    assert_equals_the_plain_loop(
        "multihead", form, "everything", dtype=torch.float32, tolerance=1e-5
    )


def assert_equals_the_plain_loop(name, form, build, *, dtype, tolerance):
    options = BUILDS[build]
    model = tiny_model(attention_config(name), form, dtype=dtype, **options)
    plain_model, batch = plain_copy(model), batch_of_two()

    fast, plain = fast_loss(model, batch), plain_loss(plain_model, batch)

    assert_is_fast(fast, form=form, layer_norm="layer_norm" in options)
    assert "_UnrollBackward" not in node_counts(plain)
    assert_close(fast, plain, rtol=tolerance, atol=0)
    gradients, expected = gradients_of(fast, model), gradients_of(plain, plain_model)
    assert_gradients_close(gradients, expected, tolerance=tolerance)


@combinations(["plain", "everything"])
def test_scheduled_sampling_is_that_of_the_plain_loop(name, form, build):
    model = tiny_model(attention_config(name), form, **BUILDS[build])
    plain_model, batch = plain_copy(model), batch_of_two()
    forced_mask = torch.tensor([[True, False, True, False], [False, False, True, True]])

    losses = fast_loss(model, batch, forced_mask), plain_loss(plain_model, batch, forced_mask)

    assert_close(*losses, rtol=1e-10, atol=0)
    gradients = gradients_of(losses[0], model), gradients_of(losses[1], plain_model)
    assert_gradients_close(*gradients, tolerance=1e-10)


def distance(gradients, exact):
    """Return how far all gradients together lie from the exact ones, relative to those."""
    differences = [(gradients[name].double() - each).norm() for name, each in exact.items()]
    norms = [each.norm() for each in exact.values()]
    return (torch.stack(differences).norm() / torch.stack(norms).norm()).item()


@combinations(["plain", "everything"])
def test_bf16_errs_no_more_than_the_plain_loop(name, form, build):
    model = tiny_model(attention_config(name), form, dtype=torch.float32, **BUILDS[build])
    plain_model, batch = plain_copy(model), batch_of_two()
    exact_model = copy.deepcopy(plain_model).double()
    exact = gradients_of(plain_loss(exact_model, batch), exact_model)

    with torch.autocast("cpu", torch.bfloat16):
        fast, plain = fast_loss(model, batch), plain_loss(plain_model, batch)

    assert_is_fast(fast, form=form, layer_norm="layer_norm" in BUILDS[build])
    error = distance(gradients_of(fast, model), exact)
    plain_error = distance(gradients_of(plain, plain_model), exact)
    # One rounding error more: of so few numbers the two errors are draws.
    assert 0 < error <= 1.5 * plain_error + torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("bridge", Bridge)
def test_every_bridge_trains_in_bf16(bridge):
    attention, batch = attention_config("additive"), batch_of_two()
    options = {"dtype": torch.float32, "bridge": bridge, **BUILDS["everything"]}
    model = tiny_model(attention, "conditional", **options)
    exact = fast_loss(model, batch)

    with torch.autocast("cpu", torch.bfloat16):
        loss = fast_loss(model, batch)

    assert loss.item() == pytest.approx(exact.item(), rel=0.05)
    assert all(gradient.isfinite().all() for gradient in gradients_of(loss, model).values())


@every_form
def test_accumulated_batches_have_the_sum_of_their_gradients(form):
    model, batch = tiny_model(attention_config("general"), form, num_layers=2), batch_of_two()
    single = [batch.row(row) for row in range(2)]

    for each in single:
        fast_loss(model, each).backward()

    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    expected = gradients_of(fast_loss(model, batch), model)
    assert_gradients_close(found, {name: expected[name] for name in found}, tolerance=1e-10)


@every_form
@pytest.mark.parametrize("part", ["encoder", "decoder", "attention", "decoder.recurrence"])
def test_a_frozen_part_changes_no_other_gradient(form, part):
    model, batch = tiny_model(attention_config("multihead"), form, num_layers=2), batch_of_two()
    expected = gradients_of(fast_loss(model, batch), model)
    model.get_submodule(part).requires_grad_(False)

    fast_loss(model, batch).backward()

    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    assert {name for name, each in model.named_parameters() if each.grad is not None} == trained
    found = {name: each.grad for name, each in model.named_parameters() if name in trained}
    assert_gradients_close(found, {name: expected[name] for name in trained}, tolerance=1e-10)


@every_form
def test_the_same_seed_drops_the_same(form):
    model, batch = tiny_model(attention_config("additive"), form, num_layers=2), batch_of_two()
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.3

    losses = [(torch.manual_seed(seed), fast_loss(model, batch))[1] for seed in (1, 1, 2)]

    assert torch.equal(losses[0], losses[1])
    assert all(not torch.equal(first, losses[2]) for first in itertools.islice(losses, 2))
