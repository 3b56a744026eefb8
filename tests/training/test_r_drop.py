import pytest
import torch
from tiny_models import tiny_batch
from torch.nn import functional

from seq2seq.data import Batch
from seq2seq.training import r_drop
from seq2seq.training.r_drop import divergence, repeat_rows


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def plain_divergence(readouts, weight, bias):
    p, q = functional.linear(readouts, weight, bias).log_softmax(-1).chunk(2)
    return sum(
        functional.kl_div(one, other, reduction="sum", log_target=True) / 2
        for one, other in ((p, q), (q, p))
    )


@pytest.mark.parametrize("chunk", [1, 4 * 11 * 3, 1 << 20], ids=["one", "three", "all"])
def test_value_and_gradients_are_those_of_torchs_kl_div(monkeypatch, chunk):
    monkeypatch.setattr(r_drop, "_CHUNK", chunk)
    factors = (drawn(2 * 7, 5), drawn(11, 5), drawn(11))

    found, expected = divergence(*factors), plain_divergence(*factors)

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for one, other in zip(
        torch.autograd.grad(found, factors), torch.autograd.grad(expected, factors), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_equal_passes_do_not_diverge():
    readouts = drawn(4, 5).repeat(2, 1)

    assert divergence(readouts, drawn(11, 5), drawn(11)).item() == 0


def test_no_chunk_of_logits_outlives_its_computation(monkeypatch):
    monkeypatch.setattr(r_drop, "_CHUNK", 4 * 11 * 2)
    saved: list[int] = []

    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (saved.append(tensor.numel()), tensor)[1], lambda tensor: tensor
    ):
        divergence(drawn(2 * 20, 5), drawn(11, 5), drawn(11))

    assert max(saved, default=0) <= 11 * 5  # the weight, and no (tokens, vocabulary)


def test_rows_are_repeated_with_the_copies_last():
    batch = Batch(*tiny_batch((5, 3), (3, 4)), torch.arange(2))

    twice = repeat_rows(batch)

    assert twice.guide is None
    assert twice.indices.tolist() == [0, 1, 0, 1]
    for name in ("source_ids", "source_mask", "previous_ids", "target_ids", "target_mask"):
        first, second = getattr(twice, name).chunk(2)
        assert torch.equal(first, getattr(batch, name))
        assert torch.equal(second, getattr(batch, name))
