import dataclasses

import pytest
import torch
from tiny_attention import attention_config, draw_sequences, sequence_attention
from torch import nn
from torch.testing import assert_close

from seq2seq.attention.multihead import CausalSelfAttention, CrossAttention, SelfAttention

CONFIG = attention_config("multihead")


@pytest.mark.parametrize("num_heads", [3, 16])
def test_heads_that_do_not_divide_the_size_are_an_error(num_heads):
    message = rf"attention\.num_heads={num_heads} must divide attention\.size=8"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, num_heads=num_heads)


# B=3, S=5, T=5 and across 4; D=8, across Q=4, K=6, V=7

KINDS = [CrossAttention, SelfAttention, CausalSelfAttention]
GAPS = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 1, 1, 1, 1]]).bool()
VALID = {
    "nothing": None,
    "lengths": torch.tensor([5, 2, 3]),
    "no_length": torch.tensor([0, 5, 0]),
    "step_lengths": torch.tensor([[1, 5, 2, 3, 4], [5, 0, 3, 0, 1], [2, 2, 2, 2, 2]]),
    "mask": GAPS,
    "step_mask": GAPS.unsqueeze(1) ^ torch.eye(5, dtype=torch.bool),
}

every_kind = pytest.mark.parametrize("kind", KINDS)
every_self = pytest.mark.parametrize("kind", KINDS[1:])
every_number_of_heads = pytest.mark.parametrize("num_heads", [1, 2, 4])
both_paths = pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "explicit"])


def call(module, inputs, name="nothing", *, need_weights):
    """Call the module with an entry of VALID; CrossAttention has 4 queries only."""
    valid = VALID[name]
    if not isinstance(module, CrossAttention):
        return module(*inputs, valid, need_weights=need_weights)
    queries, keys, values = inputs
    valid = valid[:, :4] if name.startswith("step") else valid
    return module(queries, keys, valid, values=values, need_weights=need_weights)


def mask_of(name):
    """Return the mask (B, T, S) of an entry of VALID, for one sequence."""
    valid = torch.tensor(5).expand(3) if VALID[name] is None else VALID[name]
    mask = valid if valid.dtype == torch.bool else torch.arange(5) < valid.unsqueeze(-1)
    return mask if mask.dim() == 3 else mask.unsqueeze(1).expand(3, 5, 5)


def torch_twin(module, num_heads):
    """Build PyTorch's module with the same weights."""
    ours = module.attention
    twin = nn.MultiheadAttention(8, num_heads, bias=False, batch_first=True, dtype=torch.float64)
    linears = ours.query_projection, ours.key_projection, ours.value_projection
    twin.in_proj_weight.data = torch.cat([linear.weight.data for linear in linears])
    twin.out_proj.weight.data = ours.output_projection.weight.data
    return twin


@every_kind
@every_number_of_heads
@pytest.mark.parametrize("valid", VALID)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
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
@both_paths
def test_fully_masked_query_gets_zeros_and_no_gradient(kind, need_weights):
    module, inputs = sequence_attention(kind), draw_sequences(kind)

    context = call(module, inputs, "no_length", need_weights=need_weights).context
    context.square().sum().backward()

    assert not context[[0, 2]].any()
    assert context[1].all()
    for part in (*inputs, *module.parameters()):
        assert part.grad.isfinite().all()
    for part in inputs:
        assert not part.grad[[0, 2]].any()


@every_self
@every_number_of_heads
@both_paths
@pytest.mark.parametrize("valid", ["nothing", "lengths", "step_mask"])
def test_context_and_weights_equal_torch(kind, num_heads, need_weights, valid):
    module, (states,) = sequence_attention(kind, num_heads), draw_sequences(kind)
    mask = mask_of(valid)
    if kind is CausalSelfAttention:
        mask = mask & (torch.arange(5)[:, None] >= torch.arange(5))
    seen = mask.any(-1)  # torch.nn.MultiheadAttention gives NaN for a fully masked row

    context, weights = call(module, [states], valid, need_weights=need_weights)

    expected = torch_twin(module, num_heads)(
        states,
        states,
        states,
        attn_mask=~mask.repeat_interleave(num_heads, dim=0),
        average_attn_weights=False,
    )
    assert_close(context[seen], expected[0][seen])
    if need_weights:
        assert_close(weights.transpose(1, 2)[seen], expected[1].transpose(1, 2)[seen])


def unroll(module, states):
    """Return the contexts of all steps and the past after each step."""
    past, contexts, pasts = module.start(states[:, 0]), [], []
    for state in states.unbind(1):
        context, past = module.step(state, past)
        contexts.append(context)
        pasts.append(past)
    return torch.stack(contexts, dim=1), pasts


@every_number_of_heads
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
def test_steps_equal_the_whole_in_values_and_gradients(num_heads, dtype, tolerance):
    module = sequence_attention(CausalSelfAttention, num_heads, dtype=dtype)
    (states,) = draw_sequences(CausalSelfAttention, dtype=dtype)
    whole, steps = module(states).context, unroll(module, states)[0]

    gradients = [
        torch.autograd.grad(context.square().mean(), (states, *module.parameters()))
        for context in (whole, steps)
    ]

    assert_close(steps, whole, atol=tolerance, rtol=0)
    assert_close(gradients[1], gradients[0], atol=tolerance, rtol=0)
