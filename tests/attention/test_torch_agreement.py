"""Compare the types with PyTorch's own attention functions."""

import copy
import dataclasses

import pytest
import torch
from tiny_attention import (
    VALUE_SIZE,
    VARIANTS,
    attend,
    attention_config,
    tiny_attention,
    tiny_sources,
)
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention import Normalizer

# B=3, T=4, S=5; Q=6, K=10 (6 where the type asks it), V=7

MULTIHEAD = attention_config("multihead")
STEP_MASK = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(4)) < 0.6
STEP_MASK[..., 0] = True  # torch.nn.MultiheadAttention gives NaN for a fully masked row
KINDS = {
    "lengths": torch.tensor([5, 2, 3]),
    "step_lengths": torch.tensor([[1, 5, 2, 3], [5, 4, 3, 1], [2, 2, 2, 2]]),
    "step_mask": STEP_MASK,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def as_mask(valid):
    """Return the mask (B, 1 or T, S) of lengths or a mask."""
    mask = valid if valid.dtype == torch.bool else torch.arange(5) < valid.unsqueeze(-1)
    return mask if mask.dim() == 3 else mask.unsqueeze(1)


def dot(attention, config, query, keys):
    return query, keys, {"scale": None if config.scaled else 1.0}


def general(attention, config, query, keys):
    return query, attention.key_projection(keys), {"scale": 1.0}


def uniform(attention, config, query, keys):
    return torch.zeros(3, 4, 2).double(), torch.zeros(3, 5, 2).double(), {}


def gaussian(attention, config, query, keys):
    # -(w |q - k|)^2 / 2 = w^2 q.k - (w |k|)^2 / 2 plus a term that all keys share.
    query, keys = attention.query_projection(query), attention.key_projection(keys)
    width = attention.inverse_width.item()
    bias = -(width**2) * keys.square().sum(-1).unsqueeze(1) / 2
    return query, keys, {"scale": width**2, "bias": bias}


TERMS = {"dot": dot, "general": general, "uniform": uniform, "gaussian": gaussian}
COMPARABLE = [
    name
    for name, config in VARIANTS.items()
    if config.name in TERMS and config.normalizer is Normalizer.softmax
]


@every_kind
@pytest.mark.parametrize("variant", COMPARABLE)
def test_context_equals_scaled_dot_product_attention(variant, kind):
    config, valid = VARIANTS[variant], KINDS[kind]
    attention, sources = tiny_attention(config), tiny_sources(config)
    if hasattr(attention, "inverse_width"):
        attention.inverse_width.data.fill_(0.7)

    context, _ = attend(attention, sources._replace(mask=valid))

    query, keys, options = TERMS[config.name](attention, config, sources.query, sources.keys)
    bias = options.pop("bias", torch.zeros(3, 1, 5).double())
    expected = functional.scaled_dot_product_attention(
        query,
        keys,
        sources.values,
        attn_mask=bias.masked_fill(~as_mask(valid), -torch.inf),
        **options,
    )
    assert_close(context, expected)


def with_weights_of(attention, *, num_heads, query_size, key_size):
    """Build PyTorch's multi-head attention with the weights of this module."""
    theirs = nn.MultiheadAttention(
        query_size,
        num_heads,
        bias=False,
        kdim=key_size,
        vdim=VALUE_SIZE,
        batch_first=True,
        dtype=torch.float64,
    )
    theirs.q_proj_weight = copy.deepcopy(attention.query_projection.weight)
    theirs.k_proj_weight = copy.deepcopy(attention.key_projection.weight)
    theirs.v_proj_weight = copy.deepcopy(attention.value_projection.weight)
    theirs.out_proj.weight = copy.deepcopy(attention.output_projection.weight)
    return theirs


@every_kind
@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_multihead_equals_torch_in_values_and_gradients(num_heads, kind):
    config = dataclasses.replace(MULTIHEAD, size=6, num_heads=num_heads)
    attention, sources = tiny_attention(config), tiny_sources(config)
    theirs = with_weights_of(attention, num_heads=num_heads, query_size=6, key_size=10)
    mask = as_mask(KINDS[kind]).expand(3, 4, 5).repeat_interleave(num_heads, dim=0)
    inputs = [part.requires_grad_() for part in sources[:3]]

    ours = attend(attention, sources._replace(mask=KINDS[kind]))
    expected = theirs(*inputs, attn_mask=~mask, average_attn_weights=False)

    their_weights = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    gradients = [
        torch.autograd.grad(context.square().sum(), (*inputs, *parameters))
        for context, parameters in (
            (ours[0], attention.parameters()),
            (expected[0], (*their_weights, theirs.out_proj.weight)),
        )
    ]
    assert_close(ours, expected)
    assert_close(gradients[0], gradients[1])


def test_one_head_without_projections_equals_scaled_dot():
    config = dataclasses.replace(MULTIHEAD, size=6, num_heads=1)
    dot_config = VARIANTS["dot"]
    sources = tiny_sources(dot_config)
    attention = tiny_attention(config)
    attention.key_projection = nn.Identity()
    for linear in (attention.query_projection, attention.output_projection):
        linear.weight.data = torch.eye(6).double()
    attention.value_projection.weight.data = torch.eye(6, VALUE_SIZE).double()

    context, weights = attend(attention, sources)

    expected = attend(tiny_attention(dot_config), sources)
    assert_close((context, weights), (expected[0][..., :6], expected[1]))
