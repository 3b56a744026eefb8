"""Tests of single attention types; `test_double_loop` has the equations of all types."""

import dataclasses

import pytest
import torch
from tiny_attention import DiagonalAttention, attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.base import build_attention
from seq2seq.attention.contract import check_attention
from seq2seq.attention.dot import DotAttention, DotConfig
from seq2seq.attention.normalizers import Normalizer

GAUSSIAN = attention_config("gaussian")
PLAIN_GAUSSIAN = dataclasses.replace(GAUSSIAN, size=None)


def test_values_are_converted_for_the_products_of_all_steps_at_once():
    attention = build_attention(DotConfig(), query_size=4, key_size=4, value_size=6)
    keys, values = torch.randn(2, 3, 4), torch.randn(2, 3, 6)

    with torch.autocast("cpu", torch.bfloat16):
        assert attention.prepare(keys, values=values).values.dtype == torch.bfloat16
        assert attention.double().prepare(keys, values=values.double()).values.dtype == torch.double
    assert attention.prepare(keys, values=values).values.dtype == torch.float32


@pytest.mark.parametrize("normalizer", Normalizer)
def test_positional_type_keeps_the_contract(normalizer):
    check_attention(DiagonalAttention, DotConfig(normalizer=normalizer))


def test_keys_are_projected_once_per_sentence():
    attention = tiny_attention(attention_config("additive"))
    sources = tiny_sources(attention_config("additive"))

    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)

    assert_close(memory.keys, sources.keys @ attention.key_projection.weight.T)
    assert memory.values is sources.values


def test_large_scores_in_half_precision_do_not_overflow():
    attention = DotAttention(DotConfig(), query_size=1024, key_size=1024, value_size=1024)
    states = torch.full((1, 3, 1024), 10.0, dtype=torch.float16)
    memory = attention.prepare(states, torch.ones(1, 3, dtype=torch.bool))

    _, weights = attention(states[:, :1], memory)

    # The product 102400 overflows fp16; the quotient by sqrt(1024), 3200, does not.
    assert_close(weights.float(), torch.full((1, 1, 1, 3), 1 / 3), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "spacing", "offset"), [(torch.float16, 1, 1024), (torch.float32, 1 / 8, 8192)]
)
def test_weights_depend_on_the_difference_of_query_and_key_only(dtype, spacing, offset):
    attention = tiny_attention(PLAIN_GAUSSIAN, dtype=dtype)
    generator = torch.Generator().manual_seed(3)
    query, keys = (spacing * torch.randint(9, (2, n, 6), generator=generator) for n in (3, 5))

    near, far = (
        attention((query + shift).to(dtype), attention.prepare((keys + shift).to(dtype)))[1]
        for shift in (0, offset)
    )

    # |q|^2 - 2 q.k + |k|^2 would lose the distances to rounding.
    assert_close(far, near, atol=0, rtol=0)


def test_query_that_is_a_key_has_a_finite_gradient():
    attention = tiny_attention(PLAIN_GAUSSIAN)
    keys = tiny_sources(PLAIN_GAUSSIAN).keys.requires_grad_()

    context, weights = attention(keys, attention.prepare(keys))
    (context.square().sum() + weights.square().sum()).backward()

    assert torch.autograd.gradcheck(
        lambda one: attention(one, attention.prepare(one)), keys[:1, :2].detach().requires_grad_()
    )
    assert keys.grad.isfinite().all()


def test_autocast_computes_distances_in_single_precision():
    attention = tiny_attention(GAUSSIAN, dtype=torch.float32)
    sources = tiny_sources(GAUSSIAN, dtype=torch.float32)

    expected, _ = attend(attention, sources)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context, _ = attend(attention, sources)

    assert_close(context.float(), expected, atol=0.03, rtol=0)


def test_positions_of_long_sources_are_exact_in_half_precision():
    attention = tiny_attention(dataclasses.replace(attention_config("local"), window=1)).bfloat16()
    torch.nn.init.zeros_(attention.key_projection.weight)
    torch.nn.init.constant_(attention.position_projection.weight, 1e3)  # tanh is 1
    score = torch.tensor(0.75).logit() / attention.position_score.in_features
    torch.nn.init.constant_(attention.position_score.weight, score.item())
    keys = torch.randn(1, 1000, 10).bfloat16()

    _, weights = attention(torch.ones(1, 1, 6).bfloat16(), attention.prepare(keys))

    assert (weights > 0).sum() <= 3
    assert abs(weights.argmax().item() + 1 - 750) <= 5  # bf16 rounds the logit of 0.75
