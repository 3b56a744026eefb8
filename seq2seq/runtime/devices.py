"""The names of devices and precisions, for configurations that load without torch."""

from enum import Enum


class Precision(Enum):
    """The type of matrix products; trained parameters are always fp32."""

    auto = "auto"
    """bf16 where it is fast, otherwise fp32."""
    fp32 = "fp32"
    """Full fp32. It also applies to CUDA, where torch would run the encoder's GRU in TF32 by
    default."""
    tf32 = "tf32"
    """fp32 whose products round their factors to 10 bits after the binary point; CUDA only."""
    bf16 = "bf16"
    """bfloat16: 7 bits after the binary point, and the range of fp32."""
    fp16 = "fp16"
    """Half precision: 10 bits after the binary point, and a smaller range; CUDA only."""


class Device(Enum):
    """The device that a model runs on."""

    auto = "auto"
    """CUDA if a GPU is available, otherwise the CPU."""
    cpu = "cpu"
    """The CPU."""
    cuda = "cuda"
    """A GPU through CUDA; without one, the command is refused."""
