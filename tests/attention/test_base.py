import torch

from seq2seq.attention.base import Memory


def test_memory_select_returns_the_given_sentences_in_order():
    memory = Memory(torch.randn(3, 5, 4), torch.randn(3, 5, 6), torch.rand(3, 5) < 0.5)

    selected = memory.select(torch.tensor([2, 0, 2, 2]))

    for part, original in zip(selected, memory, strict=True):
        assert torch.equal(part, torch.stack([original[2], original[0], original[2], original[2]]))
