import dataclasses

import pytest
import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention import MultiHeadAttention, MultiHeadConfig

CONFIG = attention_config("multihead")


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_mix_equals_the_context_of_forward(num_heads):
    config = dataclasses.replace(CONFIG, num_heads=num_heads)
    attention, sources = tiny_attention(config), tiny_sources(config)
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)

    assert_close(
        attention.attend_without_weights(sources.query, memory), attention(sources.query, memory)[0]
    )


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_each_head_reads_its_own_part_of_the_projections(num_heads):
    config = dataclasses.replace(CONFIG, num_heads=num_heads)
    attention, sources = tiny_attention(config), tiny_sources(config)
    size = config.size // num_heads
    _, expected = attend(attention, sources)

    attention.query_projection.weight.data[:size] = 0.0
    _, weights = attend(attention, sources)

    assert_close(weights[:, 1:], expected[:, 1:])
    assert_close(weights[2, 0], torch.tensor([1 / 3] * 3 + [0, 0]).double().expand(4, 5))


def test_published_values():
    config = MultiHeadConfig(name="multihead", dropout=0.0, size=2, num_heads=2)
    attention = MultiHeadAttention(config, query_size=2, key_size=2, value_size=2)
    for projection in attention.parameters():
        projection.data = torch.eye(2)
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]])
    memory = attention.prepare(keys, torch.tensor([[True, True, True, False]]))

    context, weights = attention(torch.tensor([[[1.0, 2.0]]]), memory)

    expected = torch.tensor([[[0.242849, 0.311836, 0.445315, 0]]])
    assert_close(weights.mean(1), expected, atol=1e-6, rtol=0)
    assert_close(context, torch.tensor([[[0.844638, 0.936621]]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("num_heads", [3, 16])
def test_heads_that_do_not_divide_the_size_are_an_error(num_heads):
    message = rf"attention\.num_heads={num_heads} must divide attention\.size=8"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, num_heads=num_heads)
