import contextlib
import hashlib
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda

import seq2seq.runtime.numerics as module
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import (
    Numerics,
    allow_tf32,
    choose_numerics,
    copy_to_device,
    cpu_has_amx,
    derive_seed,
    memory_errors_named,
)
from seq2seq.runtime.process import DeviceMemoryError

CPU = torch.device("cpu")
HAS_FP32_PRECISION = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch has older flags"
)
TENSORS = [
    torch.arange(7).view(7, 1),
    torch.tensor([[True, False, True]]),
    torch.rand(2, 3, generator=torch.Generator().manual_seed(1)),
    torch.empty(0, dtype=torch.int64),
    torch.arange(6).view(2, 3).t(),
]


@pytest.fixture(autouse=True)
def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("has_amx", "is_amd", "expected"),
    [(True, False, "bf16"), (False, False, "fp32"), (False, True, "bf16")],
)
def test_auto_takes_bf16_where_a_cpu_multiplies_it(monkeypatch, has_amx, is_amd, expected):
    # Of the processors with AVX-512 BF16 alone, only those of AMD are faster with it.
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_amx)
    monkeypatch.setattr(module, "cpu_is_amd", lambda: is_amd)

    assert cpu_has_amx() == has_amx
    assert choose_numerics(Device.cpu, Precision.auto).precision is Precision(expected)


needs_choice = pytest.mark.skipif(
    not hasattr(torch.backends.mkldnn, "matmul"), reason="torch cannot choose oneDNN"
)


@needs_choice
def test_a_context_gives_the_products_of_an_amd_processor_to_onednn(monkeypatch):
    settings = torch.backends.mkldnn.matmul
    for is_faster, expected in ((True, "bf16"), (False, settings.fp32_precision)):
        monkeypatch.setattr(module, "onednn_is_faster", lambda is_faster=is_faster: is_faster)
        before = settings.fp32_precision

        with pytest.raises(KeyError), Numerics(CPU, Precision.fp32).autocast():
            assert settings.fp32_precision == expected
            raise KeyError

        assert settings.fp32_precision == before


@needs_choice
@pytest.mark.parametrize(("is_rounded", "expected"), [(False, True), (True, False)])
def test_products_stay_with_mkl_where_onednn_would_round_them(monkeypatch, is_rounded, expected):
    @contextlib.contextmanager
    def rounding():
        with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
            yield

    monkeypatch.setattr(module, "cpu_is_amd", lambda: True)
    monkeypatch.setattr(module, "onednn_products", rounding)

    assert module.onednn_is_faster.__wrapped__() == expected


@pytest.mark.parametrize(
    ("device", "least", "expected"),
    [("cpu", 1, Precision.fp32), ("cpu", 0, Precision.bf16), ("cuda", 1, Precision.bf16)],
)
def test_only_large_models_on_a_cpu_keep_bf16(monkeypatch, device, least, expected):
    monkeypatch.setattr(module, "_WORTH_BF16", 7 + least)
    native = Numerics(torch.device(device), Precision.bf16)

    assert native.suited_to(7) == Numerics(torch.device(device), expected)


@pytest.mark.parametrize(
    ("device", "precision", "num_gpus", "message"),
    [
        ("cuda", "auto", 0, "^device=cuda: CUDA devices found: 0, needed: 3; choose cpu"),
        ("auto", "fp16", 0, "^precision=fp16 needs a CUDA device; choose bf16"),
        ("auto", "tf32", 0, "^precision=tf32 needs a CUDA device; choose bf16"),
        ("auto", "fp32", 2, "^device=auto: CUDA devices found: 2, needed: 3; choose cpu"),
    ],
)
def test_what_the_machine_lacks_is_an_error_with_a_way_out(
    monkeypatch, device, precision, num_gpus, message
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: num_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)

    with pytest.raises(ValueError, match=message):
        choose_numerics(Device(device), Precision(precision), local_rank=2)

    assert choose_numerics(Device.cpu, Precision.fp32, local_rank=2).device == CPU


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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    # Older GPUs emulate bf16, which is slower than fp32.
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: including_emulation or is_native,
    )

    assert choose_numerics(Device.auto, Precision.auto).precision is Precision(expected)


@pytest.mark.parametrize(
    ("precision", "dtype"), [(Precision.fp32, torch.float32), (Precision.bf16, torch.bfloat16)]
)
def test_products_are_computed_in_the_precision_and_parameters_stay_fp32(precision, dtype):
    layer = torch.nn.Linear(3, 2)

    with Numerics(CPU, precision).autocast():
        product = layer(torch.ones(4, 3))

    assert product.dtype == dtype
    assert layer.weight.dtype == torch.float32


def tf32_settings():
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.rnn.fp32_precision


@pytest.fixture(params=["tf32", "ieee"])
def _chosen_by_the_program(request):
    products = torch.backends.cuda.matmul
    before, products.fp32_precision = products.fp32_precision, request.param
    yield
    products.fp32_precision = before


@HAS_FP32_PRECISION
@pytest.mark.usefixtures("_chosen_by_the_program")
@pytest.mark.parametrize(("allowed", "precision"), [(True, "tf32"), (False, "ieee")])
def test_products_and_cudnn_agree_inside_and_are_restored(allowed, precision):
    before = tf32_settings()

    with pytest.raises(KeyError), allow_tf32(allowed):
        assert tf32_settings() == (precision, precision)
        raise KeyError

    assert tf32_settings() == before


@HAS_FP32_PRECISION
def test_threads_that_overlap_are_as_exact_as_the_most_exact_one_and_restore_what_was():
    before = tf32_settings()
    rounded, exact = allow_tf32(True), allow_tf32(False)

    rounded.__enter__()
    exact.__enter__()
    assert tf32_settings() == ("ieee", "ieee")
    rounded.__exit__(None, None, None)  # the first that began ends first
    assert tf32_settings() == ("ieee", "ieee")
    exact.__exit__(None, None, None)

    assert tf32_settings() == before


@pytest.mark.parametrize("allowed", [True, False])
def test_older_torch_has_other_flags(monkeypatch, allowed):
    products = SimpleNamespace(allow_tf32=not allowed)
    cudnn = SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", products)
    monkeypatch.setattr(torch.backends, "cudnn", cudnn)

    with allow_tf32(allowed):
        assert (products.allow_tf32, cudnn.allow_tf32) == (allowed, allowed)

    assert (products.allow_tf32, cudnn.allow_tf32) == (not allowed, True)


def test_a_seed_is_the_hash_of_its_arguments() -> None:
    digest = hashlib.sha256(b'[7, "order", 3]').digest()

    seed = derive_seed(7, "order", 3)

    assert seed == int.from_bytes(digest[:8], "big") // 2


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    ],
)
def test_only_too_little_memory_is_named(error):
    named = memory_errors_named("3 rows", "lower size=3")
    with pytest.raises(DeviceMemoryError) as caught, named:
        raise error
    assert str(caught.value) == "the memory of a GPU is too small for 3 rows; lower size=3"

    with (
        pytest.raises(RuntimeError, match=r"^other$"),
        memory_errors_named("3 rows", "lower size=3"),
    ):
        raise RuntimeError("other")


@pytest.mark.parametrize("number", range(1, len(TENSORS) + 1))
def test_copies_to_a_gpu_are_equal_and_the_host_does_not_wait(number):
    with pretend_cuda() as cuda:
        moved = copy_to_device(TENSORS[:number], CUDA)

        assert not cuda.waits
        for copy, original in zip(moved, TENSORS, strict=False):
            assert copy.is_cuda
            assert copy.dtype == original.dtype
            assert copy.held.storage_offset() * copy.element_size() % 16 == 0
            torch.testing.assert_close(copy.cpu(), original, rtol=0, atol=0)


FORK = """
import os, signal
import torch
import seq2seq.runtime.numerics

torch.set_num_threads(2)
values = torch.ones(500, 500)
(values @ values).exp().sum()
child = os.fork()
if child == 0:
    signal.alarm(60)
    (values @ values).exp().sum()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
def test_a_forked_process_computes_although_its_parent_had_several_threads():
    """The child lacks the threads of its parent; if it waited for them, the alarm would end it."""
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)

    assert done.stdout == "7\n"
