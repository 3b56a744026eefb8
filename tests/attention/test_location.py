import pytest
import torch
from tiny_attention import attention_config, tiny_attention
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention import LocationConfig

CONFIG = attention_config("location")


def test_features_are_a_convolution_of_the_previous_weights():
    attention, before = tiny_attention(CONFIG), torch.rand(3, 2, 9).double()

    features = attention.features(before)

    filters = attention.filters.weight.unsqueeze(1)  # (filters, 1, width)
    expected = functional.conv1d(before.flatten(0, 1).unsqueeze(1), filters, padding=2)
    assert_close(features, expected.mT.unflatten(0, (3, 2)))


def test_state_is_the_weights_of_the_last_step():
    attention = tiny_attention(CONFIG)
    memory = attention.prepare(torch.randn(2, 5, 10).double(), values=torch.randn(2, 5, 7).double())
    state = attention.start(memory)

    for query in torch.randn(3, 2, 6).double():
        _, weights, state = attention.step(query, memory, state)

    assert torch.equal(state[0], weights[:, 0])


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
