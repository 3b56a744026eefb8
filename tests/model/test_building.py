import dataclasses

import pytest
import torch
from tiny_attention import VARIANTS, attention_config, attention_sizes
from tiny_models import FORMS, decoder_config, encoder_config, gradients_of, summed_loss, tiny_batch
from torch.testing import assert_close

from seq2seq.model.bridge import Bridge
from seq2seq.model.seq2seq import ModelConfig, Seq2Seq, TiedEmbeddings

# B=3, S=5, T=4
every_type = pytest.mark.parametrize("attention", VARIANTS.values(), ids=VARIANTS.keys())
every_form = pytest.mark.parametrize("form", FORMS)
every_bridge = pytest.mark.parametrize("bridge", Bridge)


def model_config(*, tied=TiedEmbeddings.none, bridge=Bridge.projection, layer_norm=False, **sizes):
    """Return a config whose embeddings may be tied; `sizes` are the decoder's."""
    encoder = encoder_config(num_layers=2, layer_norm=layer_norm)
    decoder = decoder_config(num_layers=2, layer_norm=layer_norm)
    sizes = {"embedding_size": 8, "readout_size": 8} | sizes
    return ModelConfig(
        name="tiny",
        encoder=encoder,
        decoder=dataclasses.replace(decoder, **sizes),
        bridge=bridge,
        tied_embeddings=tied,
    )


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
    model = build(model_config(tied=tied))

    matrices = (model.encoder.embedding, model.decoder.embedding, model.decoder.output)
    assert len({matrix.weight.data_ptr() for matrix in matrices}) == num_matrices
    shared = [model.decoder.embedding.weight is matrix.weight for matrix in matrices]
    assert shared == [tied is TiedEmbeddings.all, True, tied is not TiedEmbeddings.none]


@pytest.mark.parametrize("tied", [TiedEmbeddings.decoder, TiedEmbeddings.all])
def test_tied_matrix_stays_tied_after_loading(tied):
    saved, loaded = (build(model_config(tied=tied), seed=seed) for seed in (1, 2))

    loaded.load_state_dict(saved.state_dict())

    assert loaded.decoder.output.weight is loaded.decoder.embedding.weight
    assert_close(dict(loaded.state_dict()), dict(saved.state_dict()), atol=0, rtol=0)


@pytest.mark.parametrize("tied", [TiedEmbeddings.decoder, TiedEmbeddings.all])
def test_readout_size_must_fit_a_tied_output(tied):
    message = (
        r"model\.decoder\.readout_size=9 must equal model\.decoder\.embedding_size=8 where "
        rf"model\.tied_embeddings={tied.value}"
    )
    with pytest.raises(ValueError, match=message):
        model_config(tied=tied, readout_size=9)


def test_source_embedding_size_must_fit_a_tied_matrix():
    message = (
        r"model\.encoder\.embedding_size=8 must equal model\.decoder\.embedding_size=7 where "
        r"model\.tied_embeddings=all"
    )
    with pytest.raises(ValueError, match=message):
        model_config(tied=TiedEmbeddings.all, embedding_size=7, readout_size=7)


def test_two_vocabularies_cannot_share_one_matrix():
    with pytest.raises(ValueError, match="tied_embeddings=all needs one vocabulary for both"):
        build(model_config(tied=TiedEmbeddings.all), source=11)


def test_error_for_attention_that_does_not_fit_names_the_sizes():
    with pytest.raises(ValueError, match=r"query size 6 .* and key size 10 .* must be equal"):
        build(model_config(), attention="dot")


@every_type
def test_same_seed_gives_the_same_model_and_the_same_dropout(attention):
    def run(seed):
        torch.manual_seed(seed)
        encoder = encoder_config(hidden_size=attention_sizes(attention)[1] // 2, dropout=0.3)
        config = dataclasses.replace(
            model_config(), encoder=encoder, decoder=decoder_config(dropout=0.3)
        )
        model = Seq2Seq(
            config, attention=attention, source_vocabulary_size=11, target_vocabulary_size=13
        )
        batch = tiny_batch()
        return model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts

    first, second, other = run(1), run(1), run(2)

    assert torch.equal(first, second)
    assert not torch.allclose(first, other)


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_every_parameter_starts_as_documented(tied):
    model = build(model_config(tied=tied, layer_norm=True), attention="gaussian")

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
        else:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.7 * bound < parameter.abs().max() <= bound, name


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_embedding_of_padding_starts_at_zero(tied):
    model = build(model_config(tied=tied))

    for embedding in (model.encoder.embedding, model.decoder.embedding):
        assert torch.equal(embedding.weight[0], torch.zeros(8))


def test_embedding_of_padding_gets_no_gradient():
    model, batch = build(model_config()), tiny_batch()

    gradients = gradients_of(summed_loss(model, batch), model)

    for side in ("encoder", "decoder"):
        assert torch.equal(gradients[f"{side}.embedding.weight"][0], torch.zeros(8))


def test_building_without_attention_gives_no_warning():
    model = build(model_config(), attention="none")

    assert model.decoder.recurrence.context_projection.weight.shape == (18, 0)


def test_equal_state_dicts_give_equal_models():
    first, second = (build(model_config(), seed=seed).eval() for seed in (1, 2))
    batch = tiny_batch()

    second.load_state_dict(first.state_dict())

    assert torch.equal(summed_loss(first, batch), summed_loss(second, batch))
