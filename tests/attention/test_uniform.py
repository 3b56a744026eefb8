import pytest
import torch
from tiny_models import attention_config, mix_by_loop, tiny_attention, tiny_sources
from torch.testing import assert_close

CONFIG = attention_config("uniform")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_context_is_the_mean_of_the_real_states(dtype, tolerance):
    attention, sources = tiny_attention(CONFIG), tiny_sources(CONFIG, dtype=dtype)

    context, weights = attention(sources.query, attention.prepare(sources.states, sources.mask))

    states = sources.states.double()
    expected = mix_by_loop(lambda *_: 0.0, sources.query, states, states, sources.mask)
    assert_close(context.double(), expected[0], atol=tolerance, rtol=0)
    assert_close(weights.double(), expected[1].unsqueeze(1), atol=tolerance, rtol=0)


def test_published_averages():
    attention = tiny_attention(CONFIG)
    values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
    mask = torch.arange(10) < torch.tensor([[2], [6]])

    context, _ = attention(torch.randn(2, 1, 3), attention.prepare(values, mask))

    assert_close(context, torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]]))


def test_nothing_is_learned():
    assert list(tiny_attention(CONFIG).parameters()) == []
