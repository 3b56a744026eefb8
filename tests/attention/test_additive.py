import pytest
import torch
from tiny_attention import attention_config, tiny_attention, tiny_sources
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig, LocationConfig


def test_published_values():
    config = AdditiveConfig(name="additive", dropout=0.0, size=2)
    attention = AdditiveAttention(config, query_size=2, key_size=2, value_size=2)
    attention.query_projection.weight.data = torch.eye(2)
    attention.key_projection.weight.data = torch.eye(2)
    attention.score_projection.weight.data.fill_(1.0)
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]])
    mask = torch.tensor([[True, True, True, False]])

    _, weights = attention(torch.tensor([[[1.0, 2.0]]]), attention.prepare(keys, mask))

    expected = torch.tensor([[[[0.347948, 0.293139, 0.358913, 0]]]])
    assert_close(weights, expected, atol=1e-6, rtol=0)


def test_keys_are_projected_once_per_sentence():
    attention = tiny_attention(attention_config("additive"))
    sources = tiny_sources(attention_config("additive"))

    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)

    assert_close(memory.keys, sources.keys @ attention.key_projection.weight.T)
    assert memory.values is sources.values


def test_filters_can_move_attention_one_token_to_the_right():
    config = LocationConfig(size=1, num_filters=1, filter_width=3)
    attention = tiny_attention(config)
    for name, parameter in attention.named_parameters():
        torch.nn.init.constant_(parameter, 0.0 if "query" in name or "key" in name else 1.0)
    attention.filters.weight.data = torch.tensor([[1.0, 0.0, 0.0]]).double()  # reads i - 1
    attention.score_projection.weight.data.fill_(50.0)
    memory = attention.prepare(torch.randn(1, 6, 10).double(), values=torch.randn(1, 6, 7).double())
    state = (functional.one_hot(torch.tensor([0]), 6).double(),)

    places = []
    for query in torch.randn(4, 1, 6).double():
        _, weights, state = attention.step(query, memory, state)
        places.append(weights.argmax().item())

    assert places == [1, 2, 3, 4]


def test_filters_without_a_middle_are_an_error():
    with pytest.raises(ValueError, match=r"attention\.filter_width=4 must be odd"):
        LocationConfig(filter_width=4)


def test_coverage_can_keep_attention_from_reading_a_token_twice():
    attention = tiny_attention(attention_config("coverage"))
    for parameter in attention.parameters():
        torch.nn.init.zeros_(parameter)
    attention.feature_projection.weight.data[0] = 1.0
    attention.score_projection.weight.data[0, 0] = -100.0  # against what was read
    attention.key_projection.weight.data[0, 0] = 0.1
    keys = torch.zeros(1, 4, 10).double()
    keys[0, :, 0] = torch.tensor([-1.0, -2.0, -3.0, -4.0])
    memory = attention.prepare(keys, values=torch.randn(1, 4, 7).double())

    weights = attention(torch.zeros(1, 4, 6).double(), memory)[1][0, 0]

    assert_close(weights, torch.eye(4).double().flip(1), atol=1e-3, rtol=0)
