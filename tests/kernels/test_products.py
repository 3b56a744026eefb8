import logging
from types import SimpleNamespace

import pytest
import torch
from tiny_graphs import Calls, random
from torch.testing import assert_close

from seq2seq.kernels import products as module
from seq2seq.kernels.products import (
    Kernels,
    kernels_are_fast,
    kernels_in_use,
    product_dtype,
    product_with,
    use_kernels,
)

# M=3 rows, I=5, O=4
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
PACKED = {"_mkl_linear", "_linear_pointwise"}


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
