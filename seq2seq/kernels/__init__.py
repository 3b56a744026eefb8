"""Fast formulations of single operations on a CPU, and the switch to torch's own."""

from seq2seq.kernels.products import Kernels, kernels_are_fast, kernels_in_use, use_kernels

__all__ = ["Kernels", "kernels_are_fast", "kernels_in_use", "use_kernels"]
