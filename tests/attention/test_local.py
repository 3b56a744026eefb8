import dataclasses

import torch
from tiny_attention import attention_config, tiny_attention
from torch.testing import assert_close

CONFIG = attention_config("local")


def with_position(relative, *, window):
    """Build attention without content scores that predicts one relative position."""
    attention = tiny_attention(dataclasses.replace(CONFIG, window=window))
    torch.nn.init.zeros_(attention.key_projection.weight)
    torch.nn.init.constant_(attention.position_projection.weight, 1e3)  # tanh is 1
    score = torch.tensor(relative).logit() / attention.position_score.in_features
    torch.nn.init.constant_(attention.position_score.weight, score.item())
    return attention


def test_weights_without_content_are_a_truncated_gaussian():
    attention, keys = with_position(0.5, window=2), torch.randn(1, 8, 10).double()

    _, weights = attention(
        torch.ones(1, 1, 6).double(), attention.prepare(keys, values=keys[..., :7])
    )

    # p = 4; tokens are counted from 1, and the deviation is 1.
    gaussian = torch.tensor([0, -2, -0.5, 0, -0.5, -2, 0, 0]).double().exp()
    gaussian[[0, 6, 7]] = 0
    assert_close(weights[0, 0, 0], gaussian / gaussian.sum())


def test_positions_of_long_sources_are_exact_in_half_precision():
    attention = with_position(0.75, window=1).bfloat16()
    keys = torch.randn(1, 1000, 10).bfloat16()

    _, weights = attention(torch.ones(1, 1, 6).bfloat16(), attention.prepare(keys))

    assert (weights > 0).sum() <= 3
    assert abs(weights.argmax().item() + 1 - 750) <= 5  # bf16 rounds the logit of 0.75
