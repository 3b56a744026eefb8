import torch
from tiny_attention import attention_config, tiny_attention
from torch.testing import assert_close

CONFIG = attention_config("coverage")


def test_coverage_can_keep_attention_from_reading_a_token_twice():
    attention = tiny_attention(CONFIG)
    for parameter in attention.parameters():
        torch.nn.init.zeros_(parameter)
    attention.feature_projection.weight.data[0] = 1.0
    attention.score_projection.weight.data[0, 0] = -100.0  # against what was read
    attention.key_projection.weight.data[0, 0] = 0.1
    keys = torch.zeros(1, 4, 10).double()
    keys[0, :, 0] = torch.tensor([-1.0, -2.0, -3.0, -4.0])
    memory = attention.prepare(keys, values=torch.randn(1, 4, 7).double())

    weights = attention(torch.zeros(1, 4, 6).double(), memory)[1][0, 0]

    assert_close(weights, torch.eye(4).double().flip(1), atol=1e-3, rtol=0)
