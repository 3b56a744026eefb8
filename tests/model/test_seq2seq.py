import pytest
import torch
from tiny_attention import VARIANTS, attention_config
from tiny_models import (
    FORMS,
    assert_gradients_close,
    gradients_of,
    summed_loss,
    tiny_batch,
    tiny_model,
)
from torch.testing import assert_close

from seq2seq.attention import AdditiveAttention, Normalizer

# B=3, S=5, T=4
every_type = pytest.mark.parametrize("attention", VARIANTS.values(), ids=VARIANTS.keys())
every_form = pytest.mark.parametrize("form", FORMS)
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
    # The slope of entmax15 changes without bound where a weight becomes 0.
    tolerance = 1e-6 if attention.normalizer is Normalizer.softmax else 1e-5
    assert_gradients_close(*gradients, tolerance=tolerance)


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
def test_source_of_padding_only_gives_zero_weights_and_finite_gradients(
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
def test_memory_is_prepared_from_the_encoder_states(attention):
    model, batch = tiny_model(attention), tiny_batch()

    memory, state = model.encode(batch.source_ids, batch.source_mask)

    states, _ = model.encoder(batch.source_ids, batch.source_mask)
    assert_close(memory, model.attention.prepare(states, batch.source_mask))
    assert [layer.shape for layer in state.hidden] == [(3, 6)]


@every_type
@every_form
def test_every_parameter_that_can_learn_gets_a_gradient(attention, form):
    model = tiny_model(attention, form, num_layers=2, layer_norm=True, self_attention=True)

    gradients = gradients_of(summed_loss(model, tiny_batch()), model)

    for name, gradient in gradients.items():
        unseen = name.startswith(("encoder.norm", "encoder.self_attention"))
        if unseen and model.attention.num_heads == 0:
            continue  # these act on the memory, which NoAttention does not read
        assert gradient.numel() == 0 or gradient.abs().max() > 0, name


@every_form
def test_calls_store_nothing_on_the_model(form):
    model, batch = tiny_model(attention_config("additive"), form), tiny_batch()
    before = [dict(vars(module)) for module in model.modules()]

    summed_loss(model, batch)
    memory, state = model.encode(batch.source_ids, batch.source_mask)
    model.decoder.step(state, batch.previous_ids[:, 0], memory)

    assert [dict(vars(module)) for module in model.modules()] == before


def test_model_and_decoder_share_one_attention():
    model = tiny_model(attention_config("additive"))

    assert isinstance(model.attention, AdditiveAttention)
    assert model.decoder.recurrence.attention is model.attention
    assert sum(isinstance(module, AdditiveAttention) for module in model.modules()) == 1
