"""Inspection of autograd graphs, computed operations and freed graphs, for tests."""

import contextlib
import gc
import weakref
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode

MATRIX_PRODUCTS = {"mm", "addmm_", "addmm", "bmm", "baddbmm", "_mkl_linear"}


class Calls(TorchDispatchMode):
    """Record the name and the result's shape of every operation of torch in this context."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[int, ...]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.seen.append((func.overloadpacket.__name__, tuple(result.shape)))
        return result

    def products(self, *shape: int) -> int:
        """Return the number of matrix products of this shape or its transpose."""
        wanted = {shape, (*shape[:-2], shape[-1], shape[-2])}
        return sum(found in wanted for name, found in self.seen if name in MATRIX_PRODUCTS)


def node_counts(tensor: Tensor) -> Counter[str]:
    """Count the nodes in the graph of a tensor by name."""
    nodes, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting.extend(before for before, _ in node.next_functions)
    return Counter(node.name() for node in nodes)


class _Token:
    """An object that only a graph refers to."""


class _Mark(Function):
    @staticmethod
    def forward(ctx, tensor, token):
        ctx.token = token
        return tensor.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def mark(tensor: Tensor) -> tuple[Tensor, "weakref.ref[_Token]"]:
    """Return a copy of a tensor and a reference that is dead once the copy's graph is freed."""
    token = _Token()
    return _Mark.apply(tensor, token), weakref.ref(token)


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Disable the collector of reference cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw a leaf that requires a gradient."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return drawn.to(dtype).requires_grad_()


def gradients(outputs, inputs):
    """Differentiate a sum that weights every element of the outputs differently."""
    factors = (random(*each.shape, seed=9, dtype=each.dtype).to(each.device) for each in outputs)
    loss = sum((each * factor).sum() for each, factor in zip(outputs, factors, strict=True))
    return torch.autograd.grad(loss, inputs)
