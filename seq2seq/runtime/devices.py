"""The names of devices and precisions, for configurations that load without torch."""

from enum import Enum


class Precision(Enum):
    """The type of matrix products; trained parameters are always fp32."""

    auto = "auto"
    fp32 = "fp32"
    """Full fp32. It also applies to CUDA, where torch would run the encoder's GRU in TF32 by
    default."""
    tf32 = "tf32"
    """fp32 whose products round their factors to 10 bits after the binary point; CUDA only."""
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"
    """8-bit integers, only for translating on a CPU; see `seq2seq.inference.quantization`."""


class Device(Enum):
    """The device that a model runs on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
