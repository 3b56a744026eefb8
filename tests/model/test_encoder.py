# B=3, S=5, E=8, H=5

import pytest
import torch
from tiny_models import SOURCE_VOCABULARY_SIZE, model_config, tiny_batch
from torch import nn
from torch.testing import assert_close

from seq2seq.model.encoder import Encoder


def make_encoder(*, dtype=torch.float64, **options):
    torch.manual_seed(1)
    embedding = nn.Embedding(SOURCE_VOCABULARY_SIZE, 8, padding_idx=0)
    return Encoder(model_config(**options), embedding=embedding).to(dtype)


@pytest.mark.parametrize("option", ["layer_norm", "self_attention"])
def test_states_of_padding_are_exactly_zero(option):
    encoder, batch = make_encoder(dropout=0.5, **{option: True}), tiny_batch(extra=2)
    norm = encoder.norm if option == "layer_norm" else encoder.self_attention.norm
    nn.init.ones_(norm.bias)

    states, _ = encoder(batch.source_ids, batch.source_mask)

    assert states.shape == (3, 7, encoder.states_size)
    assert torch.equal(states[~batch.source_mask], torch.zeros(11, 10).double())


def test_layer_norm_normalises_the_states():
    encoder, batch = make_encoder(layer_norm=True), tiny_batch()
    plain = make_encoder()

    states, last = encoder(batch.source_ids, batch.source_mask)

    raw, raw_last = plain(batch.source_ids, batch.source_mask)
    expected = nn.functional.layer_norm(raw, (10,)) * batch.source_mask.unsqueeze(-1)
    assert_close(states, expected)
    assert_close(last, raw_last)


def test_self_attention_is_residual_and_normalised_and_ignores_padding():
    encoder, batch = make_encoder(self_attention=True), tiny_batch()
    plain = make_encoder()
    plain.load_state_dict(encoder.state_dict(), strict=False)

    states, last = encoder(batch.source_ids, batch.source_mask)

    raw, raw_last = plain(batch.source_ids, batch.source_mask)
    for row, length in enumerate(batch.source_mask.sum(1).tolist()):
        real = raw[row : row + 1, :length]
        context = encoder.self_attention.attention(real, need_weights=True).context
        expected = nn.functional.layer_norm(real + context, (10,))
        assert_close(states[row : row + 1, :length], expected)
    assert_close(last, raw_last)


def test_residual_layers_add_their_input_to_their_states():
    encoder, batch = make_encoder(num_layers=3, residual=True), tiny_batch()
    layers = [nn.GRU(8 if not i else 10, 5, bidirectional=True).double() for i in range(3)]
    for index, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            parameter.data = getattr(encoder.gru, name.replace("l0", f"l{index}")).data

    states, last = encoder(batch.source_ids, batch.source_mask)

    for row, length in enumerate(batch.source_mask.sum(1).tolist()):
        outputs, _ = layers[0](encoder.embedding(batch.source_ids[row, :length]))
        for layer in layers[1:]:
            own, final = layer(outputs)
            outputs = outputs + own
        assert_close(states[row, :length], outputs)
        assert_close(last[row], final.flatten())
