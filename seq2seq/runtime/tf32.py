"""Choose whether CUDA may round the factors of fp32 products to TF32."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def allow_tf32(allowed: bool) -> Iterator[None]:
    """Return a context in which products and cuDNN use TF32, or full fp32.

    By default torch's products are in full fp32 and cuDNN's in TF32. The settings of the program
    that uses this package are restored at the end.

    Args:
        allowed: True rounds the factors to 10 bits after the binary point; sums stay fp32.
    """
    products, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    backends: list[object]
    setting: str | bool
    if hasattr(products, "fp32_precision"):
        backends, key = [products, cudnn.rnn], "fp32_precision"
        setting = "tf32" if allowed else "ieee"
    else:  # before torch 2.9
        backends, key, setting = [products, cudnn], "allow_tf32", allowed
    before = [getattr(backend, key) for backend in backends]
    try:
        for backend in backends:
            setattr(backend, key, setting)
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            setattr(backend, key, value)
