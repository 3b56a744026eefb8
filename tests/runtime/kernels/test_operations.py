import logging
from types import SimpleNamespace

import pytest
import torch
from tiny_graphs import Calls, node_counts, random
from torch.testing import assert_close

from seq2seq.runtime.kernels import operations as module
from seq2seq.runtime.kernels.operations import (
    Dropout,
    Kernels,
    kernels_are_fast,
    kernels_in_use,
    product_dtype,
    product_with,
    tanh_,
    use_kernels,
)

# M=3 rows, I=5, O=4
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
PACKED = {"_mkl_linear", "_linear_pointwise"}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)


def draw(*shape, seed=1, dtype=torch.float32):
    return random(*shape, seed=seed, dtype=dtype).detach()


@every_dtype
@pytest.mark.parametrize("num_uses", [1, 50])
@pytest.mark.parametrize("num_rows", [3, 0, 1, 2, 7])
def test_product_is_that_of_torch_for_any_number_of_rows(dtype, num_uses, num_rows):
    weight, rows = draw(4, 5, dtype=dtype), draw(num_rows, 5, seed=2, dtype=dtype)

    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    assert_close(multiply(rows), rows @ weight.t())


@pytest.mark.parametrize("num_uses", [1, 50])
def test_product_reads_matrices_however_they_lie_in_memory(num_uses):
    weight, rows = draw(5, 4).t(), draw(5, 3, seed=2).t()

    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    assert_close(multiply(rows), rows @ weight.t())
    repeated = rows[:1].expand(3, 5)
    assert_close(multiply(repeated), repeated @ weight.t())


def test_rows_are_rounded_to_the_type_of_the_weight():
    weight, rows = draw(4, 5, dtype=torch.bfloat16), draw(3, 5, seed=2)

    product = product_with(weight, num_rows=3, num_uses=50)(rows)

    assert torch.equal(product, rows.bfloat16() @ weight.t())


@pytest.mark.parametrize("onednn", [None, SimpleNamespace(_is_mkldnn_bf16_supported=lambda: False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_is_packed_where_no_library_does_it(monkeypatch, dtype, onednn):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: onednn is not None)
    monkeypatch.setattr(torch.ops, "mkldnn", onednn)
    weight, rows = draw(4, 5, dtype=dtype), draw(3, 5, seed=2, dtype=dtype)

    with Calls() as calls:
        product = product_with(weight, num_rows=3, num_uses=50)(rows)

    assert_close(product, rows @ weight.t())
    assert not PACKED & dict(calls.seen).keys()


@every_dtype
def test_the_type_of_a_product_is_the_one_that_torch_computes_in(dtype):
    factor = torch.ones(2, 2, dtype=dtype)

    plain = product_dtype(factor)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, product = product_dtype(factor), factor @ factor

    assert plain == dtype
    assert rounded == product.dtype


PRIVATE = {}
if torch.backends.mkl.is_available():
    PRIVATE["torch.ops.mkl"] = ["_mkl_linear", "_mkl_reorder_linear_weight"]
if torch.backends.mkldnn.is_available():
    PRIVATE["torch.ops.mkldnn"] = ["_linear_pointwise", "_reorder_linear_weight"]


class Lacking:
    """A namespace without one of its names."""

    def __init__(self, namespace, name):
        self._namespace, self._name = namespace, name

    def __getattr__(self, name):
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._namespace, name)


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in PRIVATE.items() for name in names]
)
def test_torch_without_a_private_function_uses_plain_operations_with_a_warning(
    monkeypatch, caplog, place, name
):
    owner, _, attribute = place.rpartition(".")
    namespace = getattr(torch.ops if owner == "torch.ops" else torch, attribute)
    monkeypatch.setattr(place, Lacking(namespace, name))
    monkeypatch.setattr(module, "_chosen", None)

    with caplog.at_level(logging.WARNING):
        is_fast = kernels_are_fast()

    assert not is_fast
    assert f"lacks {name}; this run uses kernels=plain" in caplog.text


def test_a_context_uses_kernels_and_restores_the_previous_ones():
    use_kernels(Kernels.fast)
    with pytest.raises(KeyError), kernels_in_use(Kernels.plain):
        assert not kernels_are_fast()
        raise KeyError

    assert kernels_are_fast()


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
