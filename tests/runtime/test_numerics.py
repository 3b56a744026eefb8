import pytest
import torch
from pretend_cuda import pretend_cuda

import seq2seq.runtime.numerics
from seq2seq.runtime.numerics import Device, Numerics, Precision, choose_numerics, cpu_has_amx

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("device", [Device.auto, Device.cpu])
@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16])
def test_an_explicit_precision_is_kept(device, precision):
    assert choose_numerics(device, precision) == Numerics(CPU, precision)


@pytest.mark.parametrize(("has_amx", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_takes_bf16_only_on_a_cpu_with_amx(monkeypatch, has_amx, expected):
    expected = Precision(expected)
    # AVX-512 BF16 alone is slower than fp32.
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_amx)

    assert cpu_has_amx() == has_amx
    assert choose_numerics(Device.cpu, Precision.auto).precision is expected


@pytest.mark.parametrize(
    ("device", "least", "expected"),
    [("cpu", 1, Precision.fp32), ("cpu", 0, Precision.bf16), ("cuda", 1, Precision.bf16)],
)
def test_only_large_models_on_a_cpu_keep_bf16(monkeypatch, device, least, expected):
    monkeypatch.setattr("seq2seq.runtime.numerics._WORTH_BF16", 7 + least)
    native = Numerics(torch.device(device), Precision.bf16)

    assert native.suited_to(7) == Numerics(torch.device(device), expected)


def test_missing_cuda_is_an_error_with_a_way_out():
    with pytest.raises(ValueError, match=r"device=cuda: no CUDA device was found; choose cpu"):
        choose_numerics(Device.cuda, Precision.auto)


@pytest.mark.parametrize("precision", [Precision.fp16, Precision.tf32])
def test_precisions_of_cuda_on_a_cpu_are_errors_with_a_way_out(precision):
    name = precision.value
    with pytest.raises(ValueError, match=rf"precision={name} needs a CUDA device; choose bf16"):
        choose_numerics(Device.auto, precision)


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch has older flags"
)
@pytest.mark.parametrize(
    ("precision", "products"),
    [(Precision.fp32, "ieee"), (Precision.tf32, "tf32"), (Precision.bf16, "tf32")],
)
def test_fp32_on_cuda_is_full_fp32_in_products_and_in_cudnn(precision, products):
    numerics = Numerics(torch.device("cuda"), precision)
    with pretend_cuda(), numerics.autocast():
        inside = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.rnn.fp32_precision

    assert inside == (products, products)


def test_a_cpu_leaves_the_flags_of_cuda_alone(monkeypatch):
    monkeypatch.setattr(seq2seq.runtime.numerics, "allow_tf32", lambda _: pytest.fail("changed"))

    with Numerics(CPU, Precision.fp32).autocast():
        pass


def test_auto_takes_the_cuda_device_of_the_process(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)

    numerics = choose_numerics(Device.auto, Precision.fp16, local_rank=3)

    assert numerics == Numerics(torch.device("cuda", 3), Precision.fp16)


@pytest.mark.parametrize(("is_native", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_takes_bf16_only_on_a_gpu_that_multiplies_it_natively(
    monkeypatch, is_native, expected
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    # Older GPUs emulate bf16, which is slower than fp32.
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: including_emulation or is_native,
    )

    assert choose_numerics(Device.auto, Precision.auto).precision is Precision(expected)


def test_a_process_without_a_gpu_of_its_own_is_told_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    with pytest.raises(
        ValueError, match=r"^process 2 of this machine has no GPU of its own: .* 2;"
    ):
        choose_numerics(Device.auto, Precision.fp32, local_rank=2)

    assert choose_numerics(Device.cpu, Precision.fp32, local_rank=2).device.type == "cpu"


def test_an_explicit_cpu_is_used_even_with_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    assert choose_numerics(Device.cpu, Precision.fp32).device == CPU


@pytest.mark.parametrize(
    ("precision", "dtype"), [(Precision.fp32, torch.float32), (Precision.bf16, torch.bfloat16)]
)
def test_products_are_computed_in_the_precision_and_parameters_stay_fp32(precision, dtype):
    layer = torch.nn.Linear(3, 2)

    with Numerics(CPU, precision).autocast():
        product = layer(torch.ones(4, 3))

    assert product.dtype == dtype
    assert layer.weight.dtype == torch.float32


def test_int8_autocast_changes_no_products():
    numerics = choose_numerics(Device.cpu, Precision.int8)

    with numerics.autocast():
        product = torch.ones(4, 3) @ torch.ones(3, 2)

    assert numerics == Numerics(CPU, Precision.int8)
    assert product.dtype == torch.float32


@pytest.mark.parametrize("device", [Device.auto, Device.cuda])
def test_int8_on_cuda_is_an_error_with_a_way_out(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    with pytest.raises(ValueError, match=r"precision=int8 runs only on a CPU; add device=cpu"):
        choose_numerics(device, Precision.int8)
