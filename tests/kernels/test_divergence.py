import pytest
import torch
from torch.nn import functional

from seq2seq.kernels import divergence
from seq2seq.kernels.divergence import token_divergence
from seq2seq.kernels.switch import Kernels, use_kernels

every_kernel = pytest.mark.parametrize("kernels", Kernels, ids=lambda kernels: kernels.value)


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def expected_divergence(readouts, weight, bias):
    p, q = functional.linear(readouts, weight, bias).log_softmax(-1).chunk(2)
    return sum(
        functional.kl_div(one, other, reduction="sum", log_target=True) / 2
        for one, other in ((p, q), (q, p))
    )


@every_kernel
@pytest.mark.parametrize("chunk", [1, 2 * 11 * 3, 1 << 20], ids=["one", "three", "all"])
def test_value_and_gradients_are_those_of_torchs_kl_div(monkeypatch, kernels, chunk):
    use_kernels(kernels)
    monkeypatch.setattr(divergence, "_CHUNK", chunk)
    factors = (drawn(2 * 7, 5), drawn(11, 5), drawn(11))

    found, expected = token_divergence(*factors), expected_divergence(*factors)

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    gradients = (torch.autograd.grad(3 * each, factors) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@every_kernel
def test_equal_passes_do_not_diverge(kernels):
    use_kernels(kernels)
    factors = (drawn(4, 5).detach().repeat(2, 1).requires_grad_(), drawn(11, 5), drawn(11))

    found = token_divergence(*factors)

    assert found.item() == 0
    for gradient in torch.autograd.grad(found, factors):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


@every_kernel
def test_no_logits_outlive_their_chunk(monkeypatch, kernels):
    use_kernels(kernels)
    monkeypatch.setattr(divergence, "_CHUNK", 2 * 11 * 2)
    saved: list[int] = []

    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (saved.append(tensor.numel()), tensor)[1], lambda tensor: tensor
    ):
        token_divergence(drawn(2 * 40, 1), drawn(11, 1), drawn(11))

    assert max(saved, default=0) <= 2 * 40  # the readouts, and no (tokens, vocabulary)


@every_kernel
def test_a_frozen_matrix_gets_no_gradient(kernels):
    use_kernels(kernels)
    readouts, weight, bias = drawn(4, 5), drawn(11, 5).detach(), drawn(11)

    token_divergence(readouts, weight, bias).backward()

    assert weight.grad is None
    assert readouts.grad is not None


@every_kernel
def test_bf16_products_come_close(kernels):
    use_kernels(kernels)
    factors = [each.detach().float().requires_grad_() for each in (drawn(14, 5), drawn(11, 5))]
    bias = torch.zeros(11, requires_grad=True)
    exact = expected_divergence(*factors, bias)

    with torch.autocast("cpu", torch.bfloat16):
        found = token_divergence(*factors, bias)
    gradients = torch.autograd.grad(found, (*factors, bias))

    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(exact.item(), rel=0.05)
    assert {each.dtype for each in gradients} == {torch.float32}
