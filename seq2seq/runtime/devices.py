"""The names of devices and precisions, for configurations that load without torch."""

from enum import Enum


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
