import dataclasses
import math

import pytest
import torch
from tiny_models import attention_config, mix_by_loop, tiny_attention, tiny_sources
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention import MultiHeadAttention, MultiHeadConfig

CONFIG = attention_config("multihead")
HEADS = [1, 2, 4, 8]


@pytest.mark.parametrize("num_heads", HEADS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_context_and_weights_are_those_of_a_double_loop(num_heads, dtype, tolerance):
    config = dataclasses.replace(CONFIG, num_heads=num_heads)
    attention, sources = tiny_attention(config, dtype=dtype), tiny_sources(config, dtype=dtype)
    exact = tiny_attention(config, dtype=dtype).double()
    query, states = sources.query.double(), sources.states.double()
    size = config.size // num_heads

    def score(head_query, head_key):
        return sum(map(float.__mul__, head_query, head_key)) / math.sqrt(size)

    context, weights = attention(sources.query, attention.prepare(sources.states, sources.mask))

    parts = [
        (query @ exact.query_projection.weight.T).split(size, dim=-1),
        (states @ exact.key_projection.weight.T).split(size, dim=-1),
        (states @ exact.value_projection.weight.T).split(size, dim=-1),
    ]
    heads = [mix_by_loop(score, *part, sources.mask) for part in zip(*parts, strict=True)]
    joined = torch.cat([head[0] for head in heads], dim=-1) @ exact.output_projection.weight.T
    assert_close(context.double(), joined, atol=tolerance, rtol=0)
    stacked = torch.stack([head[1] for head in heads], dim=1)
    assert_close(weights.double(), stacked, atol=tolerance, rtol=0)


@pytest.mark.parametrize("num_heads", HEADS)
def test_context_and_weights_are_those_of_torch(num_heads):
    config = dataclasses.replace(CONFIG, num_heads=num_heads)
    attention = MultiHeadAttention(
        config, query_size=config.size, key_size=10, value_size=10
    ).double()
    theirs = nn.MultiheadAttention(
        config.size, num_heads, bias=False, kdim=10, vdim=10, batch_first=True, dtype=torch.float64
    )
    theirs.q_proj_weight = attention.query_projection.weight
    theirs.k_proj_weight = attention.key_projection.weight
    theirs.v_proj_weight = attention.value_projection.weight
    theirs.out_proj.weight = attention.output_projection.weight
    sources = tiny_sources(config)
    query = torch.randn(3, 4, config.size, dtype=torch.float64)

    context, weights = attention(query, attention.prepare(sources.states, sources.mask))

    expected = theirs(
        query,
        sources.states,
        sources.states,
        key_padding_mask=~sources.mask,
        average_attn_weights=False,
    )
    assert_close((context, weights), expected)


def test_heads_are_the_scaled_dot_products_of_torch():
    attention, sources = tiny_attention(CONFIG), tiny_sources(CONFIG)
    memory = attention.prepare(sources.states, sources.mask)

    context, _ = attention(sources.query, memory)

    query, keys, values = (
        part.unflatten(-1, (CONFIG.num_heads, -1)).transpose(1, 2)
        for part in (attention.query_projection(sources.query), memory.keys, memory.values)
    )
    mixed = functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=sources.mask[:, None, None]
    )
    assert_close(context, attention.output_projection(mixed.transpose(1, 2).flatten(2)))


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


@pytest.mark.parametrize("num_heads", [-2, 0, 3, 16])
def test_heads_that_do_not_divide_the_size_are_refused(num_heads):
    message = rf"attention\.num_heads={num_heads} must divide attention\.size=8"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, num_heads=num_heads)
