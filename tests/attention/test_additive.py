import pytest
import torch
from tiny_attention import attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention import AdditiveAttention, AdditiveConfig


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


def test_there_are_no_biases():
    names = {name for name, _ in tiny_attention(attention_config("additive")).named_parameters()}

    assert names == {f"{part}_projection.weight" for part in ("query", "key", "score")}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_scores_of_ten_thousand_do_not_overflow(dtype):
    config = attention_config("additive")
    attention, sources = tiny_attention(config), tiny_sources(config, dtype=dtype)
    weight = attention.score_projection.weight.data
    weight *= (
        1e4
        / attention.score(sources.query.double(), attention.project_keys(sources.keys.double()))
        .abs()
        .max()
    )
    memory = attention.to(dtype).prepare(sources.keys, sources.mask, values=sources.values)

    context, weights = attention(sources.query, memory)
    context.float().sum().backward()

    assert_close(weights.float().sum(-1), torch.ones(3, 1, 4), atol=1e-2, rtol=0)
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())
