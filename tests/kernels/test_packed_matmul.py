from types import SimpleNamespace

import pytest
import torch
from tiny_graphs import Calls, random
from torch.testing import assert_close

from seq2seq.kernels.packed_matmul import has_onednn_bf16, product_dtype, product_with

# M=3 rows, I=5, O=4
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
needs_mkl = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch without MKL")
needs_bf16 = pytest.mark.skipif(not has_onednn_bf16(), reason="no oneDNN, or one without bf16")
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


@pytest.mark.parametrize("num_uses", [1, 50])
def test_what_is_done_to_a_product_does_not_change_the_next(num_uses):
    weight, rows = draw(4, 5), draw(3, 5, seed=2)
    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    multiply(rows).add_(7.0)

    assert_close(multiply(rows), rows @ weight.t())


def test_rows_are_rounded_to_the_type_of_the_weight():
    weight, rows = draw(4, 5, dtype=torch.bfloat16), draw(3, 5, seed=2)

    product = product_with(weight, num_rows=3, num_uses=50)(rows)

    assert torch.equal(product, rows.bfloat16() @ weight.t())


@pytest.mark.parametrize(
    ("num_rows", "num_uses", "dtype", "packed"),
    [
        pytest.param(3, 50, torch.float32, {"_mkl_linear"}, marks=needs_mkl),
        pytest.param(3, 50, torch.bfloat16, {"_linear_pointwise"}, marks=needs_bf16),
        (1, 50, torch.float32, set()),
        (1, 50, torch.bfloat16, set()),
        (3, 1, torch.float32, set()),
        (3, 1, torch.bfloat16, set()),
        (3, 50, torch.float64, set()),
    ],
)
def test_a_matrix_is_packed_where_that_pays(num_rows, num_uses, dtype, packed):
    with Calls() as calls:
        product_with(draw(4, 5, dtype=dtype), num_rows=num_rows, num_uses=num_uses)(
            draw(num_rows, 5, dtype=dtype)
        )

    assert PACKED & dict(calls.seen).keys() == packed


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
