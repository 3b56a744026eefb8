import torch
from tiny_attention import attention_config, tiny_attention
from torch.testing import assert_close

CONFIG = attention_config("general")


def test_identity_matrix_makes_it_an_unscaled_dot():
    attention = tiny_attention(CONFIG)
    attention.key_projection.weight.data = torch.eye(2).double()
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]]).double()
    memory = attention.prepare(keys, torch.tensor([[True, True, True, False]]))

    _, weights = attention(torch.tensor([[[1.0, 2.0]]]).double(), memory)

    expected = torch.tensor([[[[0.090031, 0.244728, 0.665241, 0]]]]).double()
    assert_close(weights, expected, atol=1e-6, rtol=0)
