import torch
from tiny_attention import attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig


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
