"""Where and how precisely a model computes."""

import contextlib
from dataclasses import dataclass, replace
from enum import Enum

import torch


class Precision(Enum):
    """The type that products are computed in; parameters that are trained are always fp32."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"
    """on a CPU, to translate; see `quantization`"""


class Device(Enum):
    """Where the model runs."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


_DTYPES = {
    Precision.fp32: torch.float32,
    Precision.bf16: torch.bfloat16,
    Precision.fp16: torch.float16,
}
_WORTH_BF16 = 2_000_000
"""parameters beside attention and recurrence; for fewer a CPU gains less by bf16 than conversions
cost (measured)"""


@dataclass(frozen=True, slots=True)
class Numerics:
    """A device and the type that products are computed in."""

    device: torch.device
    precision: Precision

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Compute products in the chosen type; parameters and sums stay fp32.

        For int8 that is a matter of the model, which `quantize` changes.
        """
        if self.precision in (Precision.fp32, Precision.int8):
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=_DTYPES[self.precision])

    def suited_to(self, num_parameters: int) -> "Numerics":
        """Return fp32 numerics where a CPU trains a model of this size faster in fp32 than in bf16.

        Args:
            num_parameters: Parameters of the parts that no attention type or decoder form changes,
                so that all runs of a sweep get the same precision.
        """
        is_small = self.device.type == "cpu" and num_parameters < _WORTH_BF16
        return replace(self, precision=Precision.fp32) if is_small else self


def choose_numerics(device: Device, precision: Precision, *, local_rank: int = 0) -> Numerics:
    """Resolve `auto`: CUDA where there is one, bf16 where the hardware multiplies it natively.

    Whether a model gains by that, `Numerics.suited_to` says.

    Raises:
        ValueError: the device is not there, or does not compute in this precision.
    """
    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda: no CUDA device was found; choose cpu or auto")
    on_cuda = device is not Device.cpu and torch.cuda.is_available()
    chosen = torch.device("cuda", local_rank) if on_cuda else torch.device("cpu")
    if precision is Precision.auto:
        native = torch.cuda.is_bf16_supported(False) if on_cuda else cpu_has_amx()
        precision = Precision.bf16 if native else Precision.fp32
    if precision is Precision.fp16 and not on_cuda:
        raise ValueError("precision=fp16 needs a CUDA device; choose bf16 or fp32")
    if precision is Precision.int8 and on_cuda:
        raise ValueError("precision=int8 runs on the CPU alone; choose device=cpu with it")
    return Numerics(chosen, precision)


def cpu_has_amx() -> bool:
    """Return whether this CPU has AMX, which multiplies bf16 and int8 matrices natively.

    AVX-512 BF16 alone is not enough: training was half as fast with it as in fp32.
    """
    return bool(torch.cpu._is_amx_tile_supported())
