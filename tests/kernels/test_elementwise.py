import pytest
import torch
from tiny_graphs import node_counts, random
from torch.testing import assert_close

from seq2seq.kernels import Kernels
from seq2seq.kernels.elementwise import Dropout, tanh_
from seq2seq.kernels.products import use_kernels


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_p_is_dropped_and_the_mean_is_kept(p):
    kept = Dropout(p)(torch.ones(100_003))

    deviation = (p * (1 - p) / 100_003) ** 0.5
    assert (kept == 0).double().mean().item() == pytest.approx(p, abs=4 * deviation)
    assert kept.double().mean().item() == pytest.approx(1, abs=4 * deviation / (1 - p))


@pytest.mark.parametrize("p", [0.1, 0.25, 1 / 3])
def test_what_is_kept_is_scaled_by_p_in_parts_of_65536(p):
    inputs = torch.randn(5, 7, dtype=torch.float64)

    result = Dropout(p)(inputs)

    is_kept = result != 0
    assert 0 < is_kept.sum() < 35
    assert_close(result, inputs * is_kept / (1 - round(p * 65536) / 65536))


def test_a_probability_is_rounded_to_one_below_1():
    inputs = torch.ones(1000)

    assert Dropout(1e-6)(inputs).equal(inputs)
    assert set(Dropout(1 - 1e-9)(inputs).tolist()) <= {0.0, 65536.0}


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5, 7), (0, 3), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_tensors_of_any_shape_and_type_are_dropped(shape, dtype):
    inputs = torch.ones(shape, dtype=dtype)

    result = Dropout(0.5)(inputs)

    assert result.shape == shape
    assert result.dtype == dtype
    assert set(result.flatten().tolist()) <= {0.0, 2.0}


def test_the_same_seed_draws_the_same():
    dropout, inputs = Dropout(0.5), torch.ones(101)

    first = dropout(inputs)
    second = dropout(inputs)
    torch.manual_seed(1)

    assert torch.equal(dropout(inputs), first)
    assert not torch.equal(first, second)


def test_the_gradient_is_that_of_what_was_kept():
    inputs = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(5, 7, dtype=torch.float64)

    result = Dropout(0.25)(inputs)
    (result * factors).sum().backward()

    assert_close(inputs.grad, factors * (result != 0) / 0.75)


def test_the_four_numbers_of_a_draw_are_independent():
    kept = (Dropout(0.5)(torch.ones(4 * 40_000)) != 0).view(-1, 4).double()

    correlations = torch.corrcoef(kept.t()) - torch.eye(4, dtype=torch.float64)
    assert correlations.abs().max() < 4 / 40_000**0.5
    following = torch.corrcoef(torch.stack((kept.flatten()[:-1], kept.flatten()[1:])))[0, 1]
    assert following.abs() < 4 / 160_000**0.5


def test_plain_dropout_is_that_of_torch():
    use_kernels(Kernels.plain)
    inputs = torch.ones(100)

    dropped = Dropout(0.3)(inputs)

    torch.manual_seed(1)
    assert torch.equal(dropped, torch.nn.functional.dropout(inputs, 0.3))


@pytest.mark.parametrize("kernels", Kernels)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tanh_and_its_gradient(kernels, dtype):
    use_kernels(kernels)
    inputs = random(1000, seed=0, dtype=dtype)
    extremes = torch.tensor([-torch.inf, -200.0, -1e-4, 0.0, 1e-4, 200.0, torch.inf], dtype=dtype)
    close = {"rtol": 0, "atol": 1e-15 if dtype == torch.float64 else 2e-7}

    found = tanh_(inputs * 5)

    assert ("TanhBackward0" in node_counts(found)) == (kernels is Kernels.plain)
    expected = torch.tanh(inputs.double() * 5)
    assert_close(found.double(), expected, **close)
    factors = random(1000, seed=1).detach()
    [slopes] = torch.autograd.grad((found * factors.to(dtype)).sum(), inputs)
    [true] = torch.autograd.grad((expected * factors).sum(), inputs)
    assert_close(
        slopes.double(), true.double(), rtol=0, atol=1e-14 if dtype == torch.float64 else 1e-5
    )
    assert_close(tanh_(extremes.clone()), torch.tanh(extremes), **close)


def test_without_gradients_tanh_replaces_its_inputs():
    inputs = torch.randn(3, 4)
    expected = torch.tanh(inputs)

    tanh_(inputs)

    assert_close(inputs, expected)
