import math

import pytest
import torch
from tiny_models import attention_config, mix_by_loop, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention import AdditiveAttention, AdditiveConfig


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_context_and_weights_are_those_of_a_double_loop(dtype, tolerance):
    config = attention_config("additive")
    attention, sources = tiny_attention(config, dtype=dtype), tiny_sources(config, dtype=dtype)
    exact = tiny_attention(config, dtype=dtype).double()
    w_q = exact.query_projection.weight.tolist()
    w_k = exact.key_projection.weight.tolist()
    w_v = exact.score_projection.weight[0].tolist()

    def score(query, key):
        return sum(
            v * math.tanh(sum(map(float.__mul__, q, query)) + sum(map(float.__mul__, k, key)))
            for v, q, k in zip(w_v, w_q, w_k, strict=True)
        )

    context, weights = attention(sources.query, attention.prepare(sources.states, sources.mask))

    states = sources.states.double()
    expected = mix_by_loop(score, sources.query.double(), states, states, sources.mask)
    assert_close(context.double(), expected[0], atol=tolerance, rtol=0)
    assert_close(weights.double(), expected[1].unsqueeze(1), atol=tolerance, rtol=0)


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

    memory = attention.prepare(sources.states, sources.mask)

    assert_close(memory.keys, sources.states @ attention.key_projection.weight.T)
    assert memory.values is sources.states
