import torch

from seq2seq.attention.base import Memory, build_attention
from seq2seq.attention.dot import DotConfig


def test_memory_select_returns_the_given_sentences_in_order():
    memory = Memory(torch.randn(3, 5, 4), torch.randn(3, 5, 6), torch.rand(3, 5) < 0.5)

    selected = memory.select(torch.tensor([2, 0, 2, 2]))

    for part, original in zip(selected, memory, strict=True):
        assert torch.equal(part, torch.stack([original[2], original[0], original[2], original[2]]))


def test_values_are_converted_for_the_products_of_all_steps_at_once():
    attention = build_attention(DotConfig(), query_size=4, key_size=4, value_size=6)
    keys, values = torch.randn(2, 3, 4), torch.randn(2, 3, 6)

    with torch.autocast("cpu", torch.bfloat16):
        assert attention.prepare(keys, values=values).values.dtype == torch.bfloat16
        assert attention.double().prepare(keys, values=values.double()).values.dtype == torch.double
    assert attention.prepare(keys, values=values).values.dtype == torch.float32
