import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close


def test_there_are_no_heads_no_context_and_no_parameters():
    config = attention_config("none")
    attention, sources = tiny_attention(config), tiny_sources(config)

    context, weights = attend(attention, sources)

    assert (attention.num_heads, attention.context_size) == (0, 0)
    assert context.shape == (3, 4, 0)
    assert weights.shape == (3, 0, 4, 5)
    assert list(attention.parameters()) == []


def test_published_averages():
    attention = tiny_attention(attention_config("uniform"))
    values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
    mask = torch.arange(10) < torch.tensor([[2], [6]])

    context, _ = attention(torch.randn(2, 1, 3), attention.prepare(values, mask))

    assert_close(context, torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]]))
