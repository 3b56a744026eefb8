"""Choose whether CUDA may round the factors of fp32 products to TF32."""

import contextlib
from collections.abc import Iterator

import torch

_KEY = "fp32_precision"


@contextlib.contextmanager
def allow_tf32(allowed: bool) -> Iterator[None]:
    """Return a context in which products and cuDNN use TF32, or full fp32.

    By default torch's products are in full fp32 and cuDNN's in TF32. The settings of the program
    that uses this package are restored at the end.

    Args:
        allowed: True rounds the factors to 10 bits after the binary point; sums stay fp32.
    """
    precision = "tf32" if allowed else "ieee"
    if not hasattr(torch.backends.cuda.matmul, _KEY):  # before torch 2.9
        products, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = products.allow_tf32, cudnn.allow_tf32
        products.allow_tf32 = cudnn.allow_tf32 = allowed
        try:
            yield
        finally:
            products.allow_tf32, cudnn.allow_tf32 = before
        return
    backends: tuple[object, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)
    chosen = [getattr(backend, _KEY) for backend in backends]
    try:
        for backend in backends:
            setattr(backend, _KEY, precision)
        yield
    finally:
        for backend, value in zip(backends, chosen, strict=True):
            setattr(backend, _KEY, value)
