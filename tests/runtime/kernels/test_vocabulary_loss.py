import pytest
import torch
from tiny_graphs import Calls, mark, random, without_collector
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels import vocabulary_loss as module
from seq2seq.runtime.kernels.operations import use_kernels
from seq2seq.runtime.kernels.vocabulary_loss import vocabulary_loss

# M=7 tokens in chunks of 3 in double precision, blocks of 2 rows, F=4, V=5
every_kernel = pytest.mark.parametrize("kernels", Kernels, ids=lambda kernels: kernels.value)
every_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.1])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 3 * 5 * 8)
    monkeypatch.setattr(module, "_BLOCK", 2 * 5)


def draw(dtype=torch.float64, *, num_tokens=7):
    """Return readouts, weight and bias, and the true ids."""
    shapes = (num_tokens, 4), (5, 4), (5,)
    factors = [random(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]
    ids = torch.randint(5, (num_tokens,), generator=torch.Generator().manual_seed(5))
    return factors, ids


def torch_loss(factors, ids, *, smoothing):
    readouts, weight, bias = factors
    logits = functional.linear(readouts, weight, bias)
    return functional.cross_entropy(logits, ids, label_smoothing=smoothing, reduction="sum")


def assert_equals_torch(factors, ids, *, smoothing, **close):
    """Compare losses, and the gradients of what is not frozen; return the cross-entropy."""
    smoothed, cross_entropy = vocabulary_loss(*factors, ids, label_smoothing=smoothing)
    expected = torch_loss(factors, ids, smoothing=smoothing)
    assert_close(smoothed, expected, **close)
    assert_close(cross_entropy, torch_loss(factors, ids, smoothing=0.0).detach(), **close)
    assert not cross_entropy.requires_grad
    trained = [each for each in factors if each.requires_grad]
    found, wanted = (torch.autograd.grad(loss, trained) for loss in (smoothed, expected))
    assert_close(found, wanted, **close)
    return cross_entropy


@every_smoothing
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("num_tokens", [0, 1, 3, 7])
@every_kernel
def test_losses_and_gradients_are_those_of_torch(kernels, smoothing, dtype, tolerance, num_tokens):
    use_kernels(kernels)
    factors, ids = draw(dtype, num_tokens=num_tokens)

    assert_equals_torch(factors, ids, smoothing=smoothing, rtol=tolerance, atol=tolerance)


@every_smoothing
@pytest.mark.parametrize("size", [1e2, 1e4])
def test_extreme_logits_give_finite_losses_and_gradients(smoothing, size):
    factors, ids = draw(torch.float32)
    factors[1].data.mul_(size)

    loss = assert_equals_torch(factors, ids, smoothing=smoothing, rtol=2e-6, atol=1e-5)

    assert loss > size


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (1, 2)])
def test_what_is_frozen_changes_no_other_gradient(frozen):
    factors, ids = draw()
    for place in frozen:
        factors[place].requires_grad_(False)

    assert_equals_torch(factors, ids, smoothing=0.1)


def test_a_scaled_loss_has_scaled_gradients_as_often_as_asked():
    factors, ids = draw()
    loss, _ = vocabulary_loss(*factors, ids, label_smoothing=0.1)

    once = torch.autograd.grad(loss, factors, retain_graph=True)
    scaled = torch.autograd.grad(3 * loss, factors)

    assert_close(scaled, tuple(3 * each for each in once))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_losses_are_the_same_and_none_is_computed(context):
    factors, ids = draw()
    expected = vocabulary_loss(*factors, ids, label_smoothing=0.1)

    with context(), Calls() as calls:
        losses = vocabulary_loss(*factors, ids, label_smoothing=0.1)

    assert_close(losses, expected, rtol=0, atol=0)
    assert calls.products(5, 4) == 0


def test_logits_are_held_for_a_chunk_at_a_time():
    factors, ids = draw()

    with Calls() as calls:
        vocabulary_loss(*factors, ids, label_smoothing=0.1)[0].backward()

    shapes = {shape for _, shape in calls.seen}
    assert (3, 5) in shapes
    assert (7, 5) not in shapes


@every_smoothing
def test_autocast_is_as_near_as_that_of_torch(smoothing):
    factors, ids = draw(torch.float32, num_tokens=50)
    exact = torch.autograd.grad(torch_loss(factors, ids, smoothing=smoothing), factors)

    with torch.autocast("cpu", torch.bfloat16):
        loss, cross_entropy = vocabulary_loss(*factors, ids, label_smoothing=smoothing)
        rounded = torch_loss(factors, ids, smoothing=smoothing)

    assert loss.dtype == cross_entropy.dtype == torch.float32
    found, plain = (torch.autograd.grad(each, factors) for each in (loss, rounded))
    for gradient, other, wanted in zip(found, plain, exact, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - wanted).norm() <= 1.5 * (other - wanted).norm() + 1e-3 * wanted.norm()


@every_smoothing
def test_under_autocast_only_the_products_are_rounded(smoothing):
    factors, ids = draw(torch.float32)
    readouts, weight = (each.detach().bfloat16() for each in factors[:2])
    logits = functional.linear(readouts, weight).float() + factors[2].detach()
    kind = {"label_smoothing": smoothing, "reduction": "sum"}
    expected = functional.cross_entropy(logits, ids, **kind)

    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = vocabulary_loss(*factors, ids, label_smoothing=smoothing)

    assert_close(loss.detach(), expected, rtol=1e-6, atol=0)


def test_the_graph_is_let_go_without_the_collector():
    (readouts, *others), ids = draw()
    with without_collector():
        marked, graph = mark(readouts)
        loss, _ = vocabulary_loss(marked, *others, ids, label_smoothing=0.1)
        loss.backward()

        del marked, loss

        assert graph() is None
