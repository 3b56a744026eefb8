import pytest
import torch
from tiny_attention import attention_config, tiny_attention
from torch.testing import assert_close

from seq2seq.attention.dot import DotAttention, DotConfig

SCALED, UNSCALED = (DotConfig(name="dot", dropout=0.0, scaled=scaled) for scaled in (True, False))


@pytest.mark.parametrize(
    ("config", "expected", "expected_context"),
    [
        (UNSCALED, [0.090031, 0.244728, 0.665241], [0.755272, 0.909969]),
        (SCALED, [0.140029, 0.283995, 0.575975], [0.716005, 0.859971]),
    ],
    ids=["unscaled", "scaled"],
)
def test_published_values(config, expected, expected_context):
    attention = DotAttention(config, query_size=2, key_size=2, value_size=2)
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]])
    memory = attention.prepare(keys, torch.tensor([[True, True, True, False]]))

    context, weights = attention(torch.tensor([[[1.0, 2.0]]]), memory)

    assert_close(weights, torch.tensor([[[[*expected, 0]]]]), atol=1e-6, rtol=0)
    assert_close(context, torch.tensor([[expected_context]]), atol=1e-6, rtol=0)


def test_large_scores_in_half_precision_do_not_overflow():
    attention = DotAttention(SCALED, query_size=1024, key_size=1024, value_size=1024)
    states = torch.full((1, 3, 1024), 10.0, dtype=torch.float16)
    memory = attention.prepare(states, torch.ones(1, 3, dtype=torch.bool))

    _, weights = attention(states[:, :1], memory)

    # The product 102400 overflows fp16; the quotient by sqrt(1024), 3200, does not.
    assert_close(weights.float(), torch.full((1, 1, 1, 3), 1 / 3), atol=1e-3, rtol=0)


def test_identity_matrix_makes_it_an_unscaled_dot():
    attention = tiny_attention(attention_config("general"))
    attention.key_projection.weight.data = torch.eye(2).double()
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]]).double()
    memory = attention.prepare(keys, torch.tensor([[True, True, True, False]]))

    _, weights = attention(torch.tensor([[[1.0, 2.0]]]).double(), memory)

    expected = torch.tensor([[[[0.090031, 0.244728, 0.665241, 0]]]]).double()
    assert_close(weights, expected, atol=1e-6, rtol=0)
