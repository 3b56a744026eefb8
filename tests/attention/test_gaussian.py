import dataclasses

import pytest
import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.base import build_attention

LEARNED = dataclasses.replace(attention_config("gaussian"), learned_inverse_width=True)
FIXED = dataclasses.replace(LEARNED, learned_inverse_width=False)
PLAIN, PLAIN_LEARNED = (dataclasses.replace(one, size=None) for one in (FIXED, LEARNED))


@pytest.mark.parametrize("config", [PLAIN, PLAIN_LEARNED], ids=["fixed", "learned"])
def test_without_projections_it_equals_the_nadaraya_watson_estimate(config):
    attention = build_attention(config, query_size=1, key_size=1, value_size=1)
    x, y = torch.linspace(0, 5, 7), torch.linspace(0, 5, 7).sin()
    queries = torch.tensor([0.3, 2.0, 4.9])

    memory = attention.prepare(x.reshape(1, 7, 1), values=y.reshape(1, 7, 1))
    context, _ = attention(queries.reshape(1, 3, 1), memory)

    kernel = (-((queries[:, None] - x) ** 2) / 2).exp()
    assert_close(context.flatten(), kernel @ y / kernel.sum(1))
    assert [name for name, _ in attention.named_parameters()] == [
        "inverse_width"
    ] * config.learned_inverse_width


@pytest.mark.parametrize(
    ("dtype", "spacing", "offset"), [(torch.float16, 1, 1024), (torch.float32, 1 / 8, 8192)]
)
def test_weights_depend_on_the_difference_of_query_and_key_only(dtype, spacing, offset):
    attention = tiny_attention(PLAIN, dtype=dtype)
    generator = torch.Generator().manual_seed(3)
    query, keys = (spacing * torch.randint(9, (2, n, 6), generator=generator) for n in (3, 5))

    near, far = (
        attention((query + shift).to(dtype), attention.prepare((keys + shift).to(dtype)))[1]
        for shift in (0, offset)
    )

    # |q|^2 - 2 q.k + |k|^2 would lose the distances to rounding.
    assert_close(far, near, atol=0, rtol=0)


def test_query_that_is_a_key_has_a_finite_gradient():
    attention = tiny_attention(PLAIN_LEARNED)
    keys = tiny_sources(PLAIN_LEARNED).keys.requires_grad_()

    context, weights = attention(keys, attention.prepare(keys))
    (context.square().sum() + weights.square().sum()).backward()

    assert torch.autograd.gradcheck(
        lambda one: attention(one, attention.prepare(one)), keys[:1, :2].detach().requires_grad_()
    )
    assert keys.grad.isfinite().all()


def test_autocast_computes_distances_in_single_precision():
    attention = tiny_attention(LEARNED, dtype=torch.float32)
    sources = tiny_sources(LEARNED, dtype=torch.float32)

    expected, _ = attend(attention, sources)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context, _ = attend(attention, sources)

    assert_close(context.float(), expected, atol=0.03, rtol=0)
