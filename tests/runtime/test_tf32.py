import types

import pytest
import torch

from seq2seq.runtime.tf32 import allow_tf32

pytestmark = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"),
    reason="torch has only the older flags",
)
BACKENDS = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)


@pytest.mark.parametrize(("allowed", "precision"), [(True, "tf32"), (False, "ieee")])
def test_products_and_cudnn_agree_inside_and_are_restored(allowed, precision):
    before = [backend.fp32_precision for backend in BACKENDS]

    with pytest.raises(KeyError), allow_tf32(allowed):
        inside = [backend.fp32_precision for backend in BACKENDS]
        raise KeyError

    assert inside == [precision] * 2
    assert [backend.fp32_precision for backend in BACKENDS] == before


def test_the_choice_of_a_program_is_restored():
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with allow_tf32(False):
            pass
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.parametrize("allowed", [True, False])
def test_older_torch_has_other_flags(monkeypatch, allowed):
    products = types.SimpleNamespace(allow_tf32=not allowed)
    cudnn = types.SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", products)
    monkeypatch.setattr(torch.backends, "cudnn", cudnn)

    with allow_tf32(allowed):
        assert (products.allow_tf32, cudnn.allow_tf32) == (allowed, allowed)

    assert (products.allow_tf32, cudnn.allow_tf32) == (not allowed, True)
