"""The device, precision, seeds, memory and threads that a program computes with."""

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.process import DeviceMemoryError

_WORTH_BF16 = 1_000_000
"""Number of parameters of encoder, embeddings and output layer. With fewer parameters, conversions
to bf16 cost a CPU more time than bf16 products save (measured)."""
_ALIGNMENT = 16
"""Number of bytes; every tensor starts at a multiple of it, because kernels read four numbers at
once."""
_LARGEST_ERROR = 1e-3
"""Maximum error in a product of 256 by 256 normal numbers; rounding to bf16 gives errors of 0.1."""


_DTYPES = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}


@dataclass(frozen=True, slots=True)
class Numerics:
    """A device and the type of matrix products on it."""

    device: torch.device
    precision: Precision

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Return a context for products in this precision; sums and parameters stay fp32."""
        dtype = _DTYPES.get(self.precision)
        low = torch.autocast(self.device.type, dtype=dtype) if dtype else contextlib.nullcontext()
        with self.float32_products(), low:
            yield

    def float32_products(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for those products that stay fp32, in a backward pass for example.

        On CUDA they are in full fp32 only if the precision is fp32. Other precisions allow TF32,
        which is more precise than bf16. On a CPU they are in full fp32.
        """
        if self.device.type == "cuda":
            return allow_tf32(self.precision is not Precision.fp32)
        return onednn_products() if onednn_is_faster() else contextlib.nullcontext()

    def suited_to(self, num_parameters: int) -> "Numerics":
        """Return fp32 numerics if a CPU trains a model of this size faster in fp32 than in bf16.

        Args:
            num_parameters: Number of parameters that do not depend on the attention type or the
                decoder form; all runs of a sweep then get the same precision.
        """
        is_small = self.device.type == "cpu" and num_parameters < _WORTH_BF16
        return replace(self, precision=Precision.fp32) if is_small else self


def choose_numerics(device: Device, precision: Precision, *, local_rank: int = 0) -> Numerics:
    """Return the device and precision to use, with `auto` resolved.

    `auto` means CUDA if a device is present, and bf16 if the hardware multiplies it natively;
    `Numerics.suited_to` then takes the size of the model into account.

    Raises:
        ValueError: The device does not exist or does not support the precision.
    """
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    on_cuda = device is Device.cuda or (device is Device.auto and num_gpus > 0)
    if on_cuda and local_rank >= num_gpus:
        raise ValueError(
            f"device={device.name}: CUDA devices found: {num_gpus}, needed: {local_rank + 1}; "
            "choose cpu, or lower torchrun's --nproc-per-node"
        )
    chosen = torch.device("cuda", local_rank) if on_cuda else torch.device("cpu")
    if on_cuda:
        # cuDNN plans each new shape, which takes longer than the attention, and each step of a
        # search has a new shape.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if precision is Precision.auto:
        native = torch.cuda.is_bf16_supported(False) if on_cuda else cpu_multiplies_bf16()
        precision = Precision.bf16 if native else Precision.fp32
    if precision in (Precision.fp16, Precision.tf32) and not on_cuda:
        raise ValueError(f"precision={precision.value} needs a CUDA device; choose bf16 or fp32")
    return Numerics(chosen, precision)


def cpu_multiplies_bf16() -> bool:
    """Return whether this CPU trains faster in bf16 than in fp32.

    Measured: CPUs with AMX do, and an AMD EPYC with AVX-512 BF16 is 1.5 times as fast as in fp32.
    An Intel Xeon with AVX-512 BF16 but without AMX is half as fast.
    """
    return cpu_has_amx() or (cpu_is_amd() and _cpu_supports("avx512_bf16"))


def cpu_has_amx() -> bool:
    """Return whether this CPU has AMX, which multiplies bf16 matrices."""
    return _cpu_supports("amx_tile")


def _cpu_supports(feature: str) -> bool:
    supports = getattr(torch.cpu, f"_is_{feature}_supported", None)  # private, so it may disappear
    return supports is not None and bool(supports())


@functools.cache
def processor_name() -> str:
    """Return the name of the processor, such as AMD EPYC."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return found[1].strip()
    return platform.processor()


def cpu_is_amd() -> bool:
    """Return whether the processor is made by AMD."""
    with contextlib.suppress(OSError):
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "AuthenticAMD" in platform.processor()


@functools.cache
def onednn_is_faster() -> bool:
    """Return whether oneDNN multiplies fp32 matrices faster than MKL on this CPU, and as exactly.

    MKL is slow on AMD processors: one thread of an EPYC multiplies at 100 GFLOP/s with MKL and at
    230 with oneDNN.
    """
    if not cpu_is_amd() or not hasattr(torch.backends.mkldnn, "matmul"):
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    rows, matrix = torch.randn(2, 256, 256, generator=torch.Generator().manual_seed(1))
    with onednn_products():
        product = rows @ matrix
    exact = rows.double() @ matrix.double()
    return bool((product - exact).abs().max() < _LARGEST_ERROR)


class _SharedSetting:
    """A setting of torch's backends for the whole process, which threads change in contexts.

    While contexts overlap, the first of their values in alphabetical order is set, which is the
    most exact: False before True, "ieee" before "tf32". The last context restores the values of
    the program that uses this package.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: list[str | bool] = []
        self._before: list[object] = []

    @contextlib.contextmanager
    def context(self, backends: Sequence[object], key: str, value: str | bool) -> Iterator[None]:
        with self._lock:
            if not self._values:
                self._before = [getattr(each, key) for each in backends]
            self._values.append(value)
            self._apply(backends, key)
        try:
            yield
        finally:
            with self._lock:
                self._values.remove(value)
                self._apply(backends, key)

    def _apply(self, backends: Sequence[object], key: str) -> None:
        for backend, before in zip(backends, self._before, strict=True):
            setattr(backend, key, min(self._values, key=str) if self._values else before)


_onednn, _tf32 = _SharedSetting(), _SharedSetting()


def onednn_products() -> contextlib.AbstractContextManager[None]:
    """Return a context in which oneDNN multiplies fp32 matrices.

    torch leaves fp32 products to oneDNN if rounding to bf16 is allowed. oneDNN rounds only with
    AMX; `onednn_is_faster` checks that it does not round.
    """
    backend = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # since torch 2.9
    return _onednn.context([backend], "fp32_precision", "bf16")


def allow_tf32(allowed: bool) -> contextlib.AbstractContextManager[None]:
    """Return a context in which products and cuDNN use TF32, or full fp32.

    By default torch's products are in full fp32 and cuDNN's in TF32. If another thread is in such
    a context, both use TF32 only if both allow it.

    Args:
        allowed: True rounds the factors to 10 bits after the binary point; sums stay fp32.
    """
    products, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(products, "fp32_precision"):
        setting = "tf32" if allowed else "ieee"
        return _tf32.context([products, cudnn.rnn], "fp32_precision", setting)
    return _tf32.context([products, cudnn], "allow_tf32", allowed)  # before torch 2.9


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2**63) that depends only on the arguments.

    Args:
        seed: The run's seed.
        purpose: Name of what is drawn, and its epoch or update, as in
            `derive_seed(seed, "order", epoch)`.
    """
    # JSON distinguishes ("a", 1), ("a1",) and ("a", "1"). Unlike hash(), SHA-256 is the same in
    # every process and Python version.
    text = json.dumps([seed, *purpose])
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


# After os.fork, the threads of torch exist only in the parent: with several, a child would wait for
# them for ever.
if os.name != "nt":
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def is_memory_shortage(error: Exception) -> bool:
    """Return whether the memory of a GPU was too small, for a tensor or a library.

    torch raises OutOfMemoryError only for its own allocations. It raises RuntimeError if cuBLAS or
    cuDNN cannot allocate, and AcceleratorError for pinned memory.
    """
    status = r"CU(BLAS|DNN)_STATUS_(ALLOC|INTERNAL_ERROR_DEVICE_ALLOCATION)_FAILED"
    shortage = rf"CUDA error: out of memory|{status}"
    return isinstance(error, torch.OutOfMemoryError) or bool(re.search(shortage, str(error)))


@contextlib.contextmanager
def memory_errors_named(work: str, way_out: str) -> Iterator[None]:
    """Return a context that names the work if the memory of a GPU is too small for it.

    Args:
        work: Description of the computation, for example `3 sentences`.
        way_out: Advice for the case that it does not fit.

    Raises:
        DeviceMemoryError: The memory is too small.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_memory_shortage(error):
            raise
        text = f"the memory of a GPU is too small for {work}; {way_out}"
        raise DeviceMemoryError(text) from error


def copy_to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copy CPU tensors to a device; on a GPU they become parts of one block of bytes.

    One copy from pinned memory starts, and the host does not wait for it. A copy from pageable
    memory would make the host wait, and several copies would cost several starts.
    """
    if device.type != "cuda":
        return [each.to(device) for each in tensors]
    parts = [each.contiguous().flatten().view(torch.uint8) for each in tensors]
    padded = [functional.pad(part, (0, -len(part) % _ALIGNMENT)) for part in parts]
    block = torch.cat(padded).pin_memory().to(device, non_blocking=True)
    split = torch.split(block, [len(part) for part in padded])
    return [
        moved[: len(part)].view(each.dtype).view(each.shape)
        for moved, part, each in zip(split, parts, tensors, strict=True)
    ]
