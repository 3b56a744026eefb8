import pytest
import torch
from tiny_attention import attention_config
from tiny_models import (
    assert_gradients_close,
    every_form,
    every_type,
    every_type_and_form,
    gradients_of,
    model_config,
    run_forward,
    summed_loss,
    tiny_batch,
    tiny_model,
)
from torch.testing import assert_close

from seq2seq.model.config import TiedEmbeddings
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.kernels.vocabulary_loss import vocabulary_loss

# B=3, S=5, T=4


@every_type_and_form
def test_pairs_are_independent_of_their_neighbours(attention, form):
    model = tiny_model(attention, form, layer_norm=True, self_attention=True)
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


@every_type_and_form
def test_source_of_padding_only_gives_zero_weights_and_finite_gradients(attention, form):
    model = tiny_model(attention, form, num_layers=2, layer_norm=True, self_attention=True)
    batch = tiny_batch(source_lengths=(5, 0, 3))

    output = model(batch.source_ids, batch.source_mask, batch.previous_ids)
    gradients = gradients_of(summed_loss(model, batch), model)

    assert torch.equal(output.attention_weights[1], torch.zeros_like(output.attention_weights[1]))
    assert output.readouts.isfinite().all()
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name


@every_type
def test_a_type_states_whether_a_gradient_reaches_its_weights(attention):
    model, batch = tiny_model(attention), tiny_batch()

    output = model(batch.source_ids, batch.source_mask, batch.previous_ids)

    assert model.attention.learns_weights == output.attention_weights.requires_grad


@every_type_and_form
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


# B=3, S=5, H=6
@pytest.mark.parametrize("num_layers", [1, 2])
def test_bridge_reads_the_last_state_of_each_direction(num_layers):
    model, batch = tiny_model(attention_config("additive"), num_layers=num_layers), tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    _, last = model.encoder(batch.source_ids, batch.source_mask)
    assert_close(torch.cat(state.hidden, dim=1), model.bridge.projection(last).tanh())


@pytest.mark.parametrize("is_rounded", [False, True])
def test_bridge_of_an_empty_source_is_finite_in_single_precision(is_rounded):
    model = tiny_model(attention_config("additive"), dtype=torch.float32)

    with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
        _, state = model.encode(torch.zeros(2, 3).long(), torch.zeros(2, 3).bool())

    assert state.hidden[0].isfinite().all()
    assert state.hidden[0].dtype == torch.float32


# B=3, S=5, T=4


def two_layers(form="bahdanau", **options):
    return model_config(form, num_layers=2, **options)


def build(config, *, attention="additive", source=13, target=13, seed=1):
    torch.manual_seed(seed)
    return Seq2Seq(
        config,
        attention=attention_config(attention),
        source_vocabulary_size=source,
        target_vocabulary_size=target,
    )


@pytest.mark.parametrize(
    ("tied", "num_matrices"),
    [(TiedEmbeddings.none, 3), (TiedEmbeddings.decoder, 2), (TiedEmbeddings.all, 1)],
)
def test_tied_embeddings_share_one_matrix(tied, num_matrices):
    model = build(two_layers(tied_embeddings=tied))

    matrices = (model.encoder.embedding, model.decoder.embedding, model.decoder.output)
    assert len({matrix.weight.data_ptr() for matrix in matrices}) == num_matrices
    shared = [model.decoder.embedding.weight is matrix.weight for matrix in matrices]
    assert shared == [tied is TiedEmbeddings.all, True, tied is not TiedEmbeddings.none]


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_fewer_target_tokens_are_a_full_output_whose_other_logits_are_minus_infinity(tied):
    few = build(two_layers(tied_embeddings=tied), source=23, target=13).double()
    full = build(two_layers(tied_embeddings=tied), source=23, target=23).double()
    given = few.state_dict() | {"decoder.output.weight": few.decoder.output.weight}
    with torch.no_grad():
        for name, value in full.state_dict().items():
            value[: len(given[name])] = given[name]
        few.decoder.output.bias.normal_()
        full.decoder.output.bias[:13] = few.decoder.output.bias
        full.decoder.output.bias[13:] = -torch.inf
    batch = tiny_batch()

    readouts = few(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    layer, true_ids = few.decoder.output, batch.target_ids[batch.target_mask]
    loss, _ = vocabulary_loss(
        readouts[batch.target_mask], layer.weight, layer.bias, true_ids, label_smoothing=0.0
    )

    expected = summed_loss(full, batch)
    assert_close(loss, expected, atol=1e-12, rtol=1e-12)
    assert_close(summed_loss(few, batch), expected, atol=1e-12, rtol=1e-12)
    gradients, of_full = gradients_of(loss, few), gradients_of(expected, full)
    for name, gradient in gradients.items():
        assert_close(gradient, of_full[name][: len(gradient)], atol=1e-12, rtol=1e-12)
    assert set(gradients) == set(of_full)


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_every_parameter_starts_as_documented(tied):
    model = build(two_layers(tied_embeddings=tied, layer_norm=True), attention="gaussian")

    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("width"):
            expected = 0.0 if name.endswith("bias") else 1.0
            assert torch.equal(parameter, torch.full_like(parameter, expected)), name
        elif parameter.dim() == 1:
            assert torch.equal(parameter, torch.zeros_like(parameter)), name
        elif "weight_hh" in name or "hidden_projection" in name:
            for gate in parameter.chunk(3):
                assert_close(gate @ gate.T, torch.eye(len(gate)), atol=1e-5, rtol=0)
        elif "embedding." in name:
            deviation = parameter[1:].std() * parameter.shape[1] ** 0.5
            assert 0.7 < deviation < 1.3, name
            assert not parameter[0].any(), name  # of padding
        else:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.7 * bound < parameter.abs().max() <= bound, name


DROPOUT = {
    "word_dropout": ["encoder.word_dropout", "decoder.word_dropout"],
    "dropout": [
        "encoder.embedding_dropout",
        "encoder.gru.between_layers",
        "encoder.self_attention.dropout",
        "encoder.hidden_dropout",
        "decoder.embedding_dropout",
        "decoder.recurrence.dropout",
        "decoder.readout.self_attention.dropout",
        "decoder.readout.hidden_dropout",
        "decoder.readout_dropout",
    ],
}
"""The modules that read each key."""


@every_form
@pytest.mark.parametrize("key", DROPOUT)
def test_each_dropout_has_its_probability_and_acts_in_training(form, key):
    config = two_layers(form, self_attention=True, **{key: 0.5})
    model, batch = build(config), tiny_batch()
    found = {name: each for name, each in model.named_modules() if getattr(each, "p", 0) > 0}

    assert [*found] == DROPOUT[key]
    for module in found.values():
        for each in found.values():
            each.p = 0.5 if each is module else 0.0
        first, second = (run_forward(model, batch) for _ in range(2))
        assert not torch.equal(first[0], second[0])
