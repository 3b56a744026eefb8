import torch
from tiny_attention import attention_config, tiny_attention
from torch.testing import assert_close

CONFIG = attention_config("uniform")


def test_published_averages():
    attention = tiny_attention(CONFIG)
    values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
    mask = torch.arange(10) < torch.tensor([[2], [6]])

    context, _ = attention(torch.randn(2, 1, 3), attention.prepare(values, mask))

    assert_close(context, torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]]))
