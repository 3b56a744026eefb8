"""Where and how precisely a model computes."""

import contextlib
from dataclasses import dataclass, replace

import torch
from torch import nn

from seq2seq.config.training import Device, Precision
from seq2seq.model.seq2seq import Seq2Seq, count_parameters

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

    def suited_to(self, model: Seq2Seq) -> "Numerics":
        """Take fp32 where a CPU trains the model faster than in bf16.

        What is counted is the same whatever the attention and the decoder's form, so that a sweep
        over them compares like with like.
        """
        decoder = model.decoder
        counted = nn.ModuleList((model.encoder, decoder.embedding, decoder.output))
        is_small = self.device.type == "cpu" and count_parameters(counted) < _WORTH_BF16
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
        native = torch.cuda.is_bf16_supported(False) if on_cuda else cpu_has_bf16()
        precision = Precision.bf16 if native else Precision.fp32
    if precision is Precision.fp16 and not on_cuda:
        raise ValueError("precision=fp16 needs a CUDA device; choose bf16 or fp32")
    if precision is Precision.int8 and on_cuda:
        raise ValueError("precision=int8 runs on the CPU alone; choose device=cpu with it")
    return Numerics(chosen, precision)


def cpu_has_bf16() -> bool:
    """Say whether this CPU multiplies bf16 natively; emulated it is slower than fp32."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))
