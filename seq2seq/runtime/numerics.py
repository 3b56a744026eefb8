"""The device and the numeric precision that a model computes with."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import torch

from seq2seq.runtime.tf32 import allow_tf32


class Precision(Enum):
    """The type of matrix products; trained parameters are always fp32."""

    auto = "auto"
    fp32 = "fp32"
    """Full fp32, on CUDA too, where torch's default would run the encoder's GRU in TF32."""
    tf32 = "tf32"
    """CUDA only: factors of products are rounded to 10 bits after the binary point."""
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"
    """Only to translate, on a CPU; see `seq2seq.inference.quantization`."""


class Device(Enum):
    """The device that a model runs on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


_DTYPES = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}
_WORTH_BF16 = 2_000_000
"""Parameters of encoder, embeddings and output layer. With fewer, conversions to bf16 cost a CPU
more time than bf16 products save (measured)."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """A device and the type of matrix products on it."""

    device: torch.device
    precision: Precision

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Return a context that computes products in this precision; sums and parameters stay fp32.

        For int8 the context does nothing: `seq2seq.inference.quantization` changes the model.
        """
        dtype = _DTYPES.get(self.precision)
        low = torch.autocast(self.device.type, dtype=dtype) if dtype else contextlib.nullcontext()
        with self.float32_products(), low:
            yield

    def float32_products(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for those products that stay fp32, in a backward pass for example.

        On CUDA they are in full fp32 only if the precision is fp32; the others allow TF32, which
        is more precise than bf16.
        """
        if self.device.type != "cuda":
            return contextlib.nullcontext()
        return allow_tf32(self.precision is not Precision.fp32)

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
    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda: no CUDA device was found; choose cpu or auto")
    on_cuda = device is not Device.cpu and torch.cuda.is_available()
    if on_cuda and local_rank > 0 and local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"process {local_rank} of this machine has no GPU of its own: they are numbered from "
            f"0, and there are {torch.cuda.device_count()}; give torchrun --nproc-per-node no more "
            "than that, or set device=cpu"
        )
    chosen = torch.device("cuda", local_rank) if on_cuda else torch.device("cpu")
    if precision is Precision.auto:
        native = torch.cuda.is_bf16_supported(False) if on_cuda else cpu_has_amx()
        precision = Precision.bf16 if native else Precision.fp32
    if precision in (Precision.fp16, Precision.tf32) and not on_cuda:
        raise ValueError(f"precision={precision.value} needs a CUDA device; choose bf16 or fp32")
    if precision is Precision.int8 and on_cuda:
        raise ValueError("precision=int8 runs only on a CPU; add device=cpu")
    return Numerics(chosen, precision)


def cpu_has_amx() -> bool:
    """Return whether this CPU has AMX, which multiplies bf16 and int8 matrices natively.

    AVX-512 BF16 alone is not enough: training was half as fast with it as in fp32.
    """
    supports = getattr(torch.cpu, "_is_amx_tile_supported", None)  # private: it may disappear
    return supports is not None and bool(supports())
