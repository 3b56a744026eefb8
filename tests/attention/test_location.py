import pytest
import torch
from tiny_attention import tiny_attention
from torch.nn import functional

from seq2seq.attention.location import LocationConfig


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
