import dataclasses

import pytest
import torch
from tiny_attention import (
    VALID,
    attention_config,
    draw_sequences,
    sequence_attention,
    valid_and_mask,
)
from torch import nn
from torch.testing import assert_close

from seq2seq.attention.multihead import CausalSelfAttention, CrossAttention, SelfAttention
from seq2seq.attention.normalizers import Normalizer


@pytest.mark.parametrize("num_heads", [3, 16])
def test_heads_that_do_not_divide_the_size_are_an_error(num_heads):
    message = rf"attention\.num_heads={num_heads} must divide attention\.size=8"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(attention_config("multihead"), num_heads=num_heads)


# B=3, S=5, T=5 and across 4; D=8, across Q=4, K=6, V=7

KINDS = [CrossAttention, SelfAttention, CausalSelfAttention]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_number_of_heads = pytest.mark.parametrize("num_heads", [1, 2, 4])
every_precision = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)


def call(module, inputs, name, *, need_weights):
    """Call the module with an entry of VALID."""
    queries, keys, values = inputs
    valid, _ = valid_and_mask(name, num_steps=queries.shape[1])
    if isinstance(module, CrossAttention):
        return module(queries, keys, valid, values=values, need_weights=need_weights)
    return module(queries, valid, need_weights=need_weights)


@every_kind
@every_number_of_heads
@pytest.mark.parametrize("valid", VALID)
@every_precision
def test_both_paths_agree_in_values_and_gradients(kind, num_heads, valid, dtype, tolerance):
    module = sequence_attention(kind, num_heads, dtype=dtype)
    inputs = draw_sequences(kind, dtype=dtype)
    variables = *inputs, *module.parameters()

    fused, explicit = (call(module, inputs, valid, need_weights=need) for need in (False, True))
    gradients = [
        torch.autograd.grad(attended.context.square().mean(), variables)
        for attended in (fused, explicit)
    ]

    assert fused.weights is None
    assert explicit.weights.shape == (3, num_heads, inputs[0].shape[1], 5)
    assert_close(fused.context, explicit.context, atol=tolerance, rtol=0)
    assert_close(gradients[0], gradients[1], atol=tolerance, rtol=0)


@every_kind
@pytest.mark.parametrize("normalizer", Normalizer)
@pytest.mark.parametrize("valid", VALID)
def test_context_and_weights_are_those_of_attention_with_a_mask(kind, normalizer, valid):
    module = sequence_attention(kind, normalizer=normalizer)
    inputs = queries, keys, values = draw_sequences(kind)
    _, mask = valid_and_mask(valid, num_steps=queries.shape[1])
    if kind is CausalSelfAttention:
        mask = mask & (torch.arange(5)[:, None] >= torch.arange(5))

    context, weights = call(module, inputs, valid, need_weights=True)

    memory = module.attention.prepare(keys, mask, values=values)
    assert_close((context, weights), module.attention(queries, memory))
    assert_close(call(module, inputs, valid, need_weights=False).context, context)


@every_number_of_heads
def test_self_attention_equals_torch(num_heads):
    module = sequence_attention(SelfAttention, num_heads)
    states, *_ = draw_sequences(SelfAttention)
    ours = module.attention
    theirs = nn.MultiheadAttention(8, num_heads, bias=False, batch_first=True).double()
    linears = ours.query_projection, ours.key_projection, ours.value_projection
    theirs.in_proj_weight.data = torch.cat([linear.weight.data for linear in linears])
    theirs.out_proj.weight.data = ours.output_projection.weight.data
    valid, mask = valid_and_mask("mask", num_steps=5)

    found = module(states, valid, need_weights=True)

    padding = ~mask[:, 0]
    expected = theirs(*3 * [states], key_padding_mask=padding, average_attn_weights=False)
    assert_close(tuple(found), expected)


@every_number_of_heads
@every_precision
def test_steps_equal_the_whole_in_values_and_gradients(num_heads, dtype, tolerance):
    module = sequence_attention(CausalSelfAttention, num_heads, dtype=dtype)
    states, *_ = draw_sequences(CausalSelfAttention, dtype=dtype)
    past, contexts = module.start(states[:, 0]), []
    for state in states.unbind(1):
        context, past = module.step(state, past)
        contexts.append(context)
    whole, steps = module(states).context, torch.stack(contexts, dim=1)

    gradients = [
        torch.autograd.grad(context.square().mean(), (states, *module.parameters()))
        for context in (whole, steps)
    ]

    assert_close(steps, whole, atol=tolerance, rtol=0)
    assert_close(gradients[1], gradients[0], atol=tolerance, rtol=0)
