import dataclasses
import math

import pytest
import torch
from tiny_models import attention_config, mix_by_loop, tiny_attention, tiny_sources
from torch.testing import assert_close

LEARNED = dataclasses.replace(attention_config("gaussian"), learned_width=True)
FIXED = dataclasses.replace(LEARNED, learned_width=False)


@pytest.mark.parametrize("width", [1.0, 0.3, 2.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_context_and_weights_are_those_of_a_double_loop(width, dtype, tolerance):
    attention, sources = tiny_attention(LEARNED, dtype=dtype), tiny_sources(LEARNED, dtype=dtype)
    attention.width.data.fill_(width)
    width = attention.width.item()
    w_q = attention.query_projection.weight.double().tolist()
    w_k = attention.key_projection.weight.double().tolist()

    def score(query, key):
        projected_query = [sum(map(float.__mul__, row, query)) for row in w_q]
        projected_key = [sum(map(float.__mul__, row, key)) for row in w_k]
        return -((width * math.dist(projected_query, projected_key)) ** 2) / 2

    context, weights = attention(sources.query, attention.prepare(sources.states, sources.mask))

    states = sources.states.double()
    expected = mix_by_loop(score, sources.query.double(), states, states, sources.mask)
    assert_close(context.double(), expected[0], atol=tolerance, rtol=0)
    assert_close(weights.double(), expected[1].unsqueeze(1), atol=tolerance, rtol=0)


def test_learned_width_starts_as_the_fixed_one():
    sources = tiny_sources(LEARNED)
    learned, fixed = tiny_attention(LEARNED), tiny_attention(FIXED)

    outputs = [
        attention(sources.query, attention.prepare(sources.states, sources.mask))
        for attention in (learned, fixed)
    ]

    assert_close(outputs[0], outputs[1])


def test_width_is_a_parameter_only_where_it_is_learned():
    learned, fixed = tiny_attention(LEARNED), tiny_attention(FIXED)

    assert "width" in dict(learned.named_parameters())
    assert "width" not in fixed.state_dict()
    assert fixed.float().width.dtype == torch.float32


def test_wider_kernel_parameter_sharpens():
    attention, sources = tiny_attention(LEARNED), tiny_sources(LEARNED)
    memory = attention.prepare(sources.states, sources.mask)

    _, blunt = attention(sources.query, memory)
    attention.width.data.fill_(3.0)
    _, sharp = attention(sources.query, memory)

    assert (sharp.amax(-1) > blunt.amax(-1)).all()
