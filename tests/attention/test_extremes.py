"""Check that large scores do not overflow in any precision, forward or backward."""

import copy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_attention import VALUE_SIZE, VARIANTS, attention_sizes, tiny_attention
from torch.testing import assert_close

# B batch, N heads, T target length, S source length
LARGEST_SCORE = 1e4
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


@torch.no_grad()
def with_scores_up_to(size, attention, query, keys):
    """Scale query and keys by one factor so that the largest score has about this size.

    A score grows with the square of that factor, or it is bounded and stays below.
    """
    if attention.num_heads == 0:
        return query, keys
    largest = attention.score(query, attention.project_keys(keys)).abs().max()
    factor = (size / largest.clamp(min=1)).sqrt()
    return factor * query, factor * keys


def draw_valid(kind, shape, generator):
    """Return lengths or a mask, and the mask (B, T, S) that they stand for."""
    rows, steps, places = shape
    few = (rows, steps) if kind.startswith("step") else (rows,)
    if kind.endswith("lengths"):
        valid = torch.randint(places + 1, few, generator=generator)
        mask = torch.arange(places) < valid.unsqueeze(-1)
    else:
        valid = mask = torch.rand(*few, places, generator=generator) < 0.6
    return valid, (mask if mask.dim() == 3 else mask.unsqueeze(1)).expand(shape)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.tuples(*[st.integers(1, 4)] * 2, st.integers(1, 9)),
    kind=st.sampled_from(["lengths", "step_lengths", "mask", "step_mask"]),
    # Of queries near 0, rounding moves the predicted position over the edge of a window.
    largest=st.sampled_from([1.0, 1e2, LARGEST_SCORE]) | st.floats(0.01, LARGEST_SCORE),
    balance=st.sampled_from([1 / 8, 1.0, 8.0]),
    dtype=st.sampled_from(list(ROUNDING)),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_of_any_size_give_probabilities_and_gradients(
    config, shape, kind, largest, balance, dtype, seed
):
    rows, steps, places = shape
    generator = torch.Generator().manual_seed(seed)
    query_size, key_size = attention_sizes(config)
    query, keys, values = (
        torch.randn(*size, generator=generator, dtype=torch.float64)
        for size in (
            (rows, steps, query_size),
            (rows, places, key_size),
            (rows, places, VALUE_SIZE),
        )
    )
    valid, mask = draw_valid(kind, shape, generator)
    exact = tiny_attention(config)
    query, keys = with_scores_up_to(largest, exact, balance * query, keys / balance)
    inputs = [part.to(dtype).requires_grad_() for part in (query, keys, values)]
    attention = copy.deepcopy(exact).to(dtype)

    context, weights = attention(inputs[0], attention.prepare(inputs[1], valid, values=inputs[2]))
    (context.float().sum() + weights.float().square().sum() + 0 * inputs[0].sum()).backward()

    assert context.dtype == dtype
    assert torch.promote_types(weights.dtype, dtype) == weights.dtype  # not less precise
    assert context.isfinite().all()
    assert not weights.masked_select(~mask.unsqueeze(1)).any()
    sums = mask.any(-1).double().unsqueeze(1).expand(weights.shape[:-1])
    assert_close(weights.double().sum(-1), sums, atol=ROUNDING[dtype], rtol=0)
    for part in (*inputs, *attention.parameters()):
        assert part.grad is None or part.grad.isfinite().all()
    if dtype == torch.float32:
        query, keys, values = (part.detach().double() for part in inputs)
        expected = exact(query, exact.prepare(keys, valid, values=values))
        # A score s has an error of a few times 6e-8 s; so has its weight, relatively.
        assert_close(weights.double(), expected[1], atol=1e-5 + 4e-7 * largest, rtol=0)
