import pytest
import torch
from tiny_models import (
    FORMS,
    VARIANTS,
    assert_gradients_close,
    attention_config,
    gradients_of,
    summed_loss,
    tiny_batch,
    tiny_model,
)
from torch.testing import assert_close

from seq2seq.attention import AdditiveAttention
from seq2seq.model.bridge import Bridge

# B=3, S=5, T=4
every_type = pytest.mark.parametrize("attention", VARIANTS.values(), ids=VARIANTS.keys())
every_form = pytest.mark.parametrize("form", FORMS)
every_bridge = pytest.mark.parametrize("bridge", Bridge)
with_and_without_self_attention = pytest.mark.parametrize("self_attention", [False, True])


@every_type
@every_form
@with_and_without_self_attention
def test_more_padding_changes_neither_values_nor_gradients(attention, form, self_attention):
    model = tiny_model(
        attention,
        form,
        num_layers=2,
        layer_norm=True,
        self_attention=self_attention,
        dtype=torch.float32,
    )
    narrow, wide = tiny_batch(), tiny_batch(extra=3)

    readouts = model(narrow.source_ids, narrow.source_mask, narrow.previous_ids).readouts
    wide_readouts = model(wide.source_ids, wide.source_mask, wide.previous_ids).readouts

    assert_close(wide_readouts[:, :4], readouts, atol=1e-6, rtol=0)
    gradients = [gradients_of(summed_loss(model, batch), model) for batch in (narrow, wide)]
    assert_gradients_close(*gradients, tolerance=1e-6)


@every_type
@every_form
@with_and_without_self_attention
def test_pairs_are_independent_of_their_neighbours(attention, form, self_attention):
    model = tiny_model(attention, form, layer_norm=True, self_attention=self_attention)
    batch = tiny_batch()
    pairs = [batch.row(index) for index in range(3)]

    output = model(batch.source_ids, batch.source_mask, batch.previous_ids)

    for index, pair in enumerate(pairs):
        alone = model(pair.source_ids, pair.source_mask, pair.previous_ids)
        target_length, source_length = pair.previous_ids.shape[1], pair.source_ids.shape[1]
        assert_close(output.readouts[index : index + 1, :target_length], alone.readouts)
        weights = output.attention_weights[index : index + 1, :, :target_length, :source_length]
        assert_close(weights, alone.attention_weights)
    together = gradients_of(summed_loss(model, batch), model)
    apart = gradients_of(sum(summed_loss(model, pair) for pair in pairs), model)
    assert_gradients_close(together, apart, tolerance=1e-12)


@every_type
@every_form
@with_and_without_self_attention
def test_source_of_nothing_but_padding_gives_zero_weights_and_no_nan(
    attention, form, self_attention
):
    model = tiny_model(
        attention, form, num_layers=2, layer_norm=True, self_attention=self_attention
    )
    batch = tiny_batch(source_lengths=(5, 0, 3))

    output = model(batch.source_ids, batch.source_mask, batch.previous_ids)
    gradients = gradients_of(summed_loss(model, batch), model)

    assert torch.equal(output.attention_weights[1], torch.zeros_like(output.attention_weights[1]))
    assert output.readouts.isfinite().all()
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name


@every_type
def test_memory_is_what_attention_prepares_of_the_states(attention):
    model, batch = tiny_model(attention), tiny_batch()

    memory, state = model.encode(batch.source_ids, batch.source_mask)

    states, _ = model.encoder(batch.source_ids, batch.source_mask)
    assert_close(memory, model.attention.prepare(states, batch.source_mask))
    assert [layer.shape for layer in state.hidden] == [(3, 6)]


@pytest.mark.parametrize("num_layers", [1, 2])
def test_projection_bridge_reads_the_last_state_of_each_direction(num_layers):
    model, batch = tiny_model(attention_config("additive"), num_layers=num_layers), tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    _, last = model.encoder(batch.source_ids, batch.source_mask)
    projected = model.bridge.projection(last).tanh()
    assert_close(torch.cat(state.hidden, dim=1), projected)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_mean_bridge_reads_the_mean_of_the_real_states(num_layers):
    model = tiny_model(attention_config("additive"), num_layers=num_layers, bridge=Bridge.mean)
    batch = tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    states, _ = model.encoder(batch.source_ids, batch.source_mask)
    lengths = batch.source_mask.sum(1).tolist()
    means = [row[:length].mean(0) for row, length in zip(states, lengths, strict=True)]
    assert_close(torch.cat(state.hidden, dim=1), model.bridge.projection(torch.stack(means)).tanh())


def test_zero_bridge_starts_from_zeros_and_learns_nothing():
    model = tiny_model(attention_config("additive"), num_layers=2, bridge=Bridge.zero)
    batch = tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    assert torch.equal(torch.stack(state.hidden), torch.zeros(2, 3, 6).double())
    assert list(model.bridge.parameters()) == []


@every_bridge
def test_bridge_of_an_empty_source_gives_numbers(bridge):
    model = tiny_model(attention_config("additive"), bridge=bridge)

    _, state = model.encode(torch.zeros(2, 3).long(), torch.zeros(2, 3).bool())

    assert state.hidden[0].isfinite().all()


@every_bridge
def test_bridge_does_not_see_padding(bridge):
    model = tiny_model(attention_config("additive"), num_layers=2, bridge=bridge)
    narrow, wide = tiny_batch(), tiny_batch(extra=4)

    _, state = model.encode(narrow.source_ids, narrow.source_mask)
    _, wide_state = model.encode(wide.source_ids, wide.source_mask)

    assert_close(wide_state, state)


@every_type
@every_form
def test_every_parameter_that_can_learn_gets_a_gradient(attention, form):
    model = tiny_model(attention, form, num_layers=2, layer_norm=True, self_attention=True)

    gradients = gradients_of(summed_loss(model, tiny_batch()), model)

    for name, gradient in gradients.items():
        unseen = name.startswith(("encoder.norm", "encoder.self_attention"))
        if unseen and model.attention.num_heads == 0:
            continue  # it normalises what attention sees, and nothing does
        assert gradient.numel() == 0 or gradient.abs().max() > 0, name


@every_form
def test_calls_leave_nothing_on_the_model(form):
    model, batch = tiny_model(attention_config("additive"), form), tiny_batch()
    before = [dict(vars(module)) for module in model.modules()]

    summed_loss(model, batch)
    memory, state = model.encode(batch.source_ids, batch.source_mask)
    model.decoder.step(state, batch.previous_ids[:, 0], memory)

    assert [dict(vars(module)) for module in model.modules()] == before


def test_attention_belongs_to_model_and_decoder_alike():
    model = tiny_model(attention_config("additive"))

    assert isinstance(model.attention, AdditiveAttention)
    assert model.decoder.recurrence.attention is model.attention
    assert sum(isinstance(module, AdditiveAttention) for module in model.modules()) == 1
