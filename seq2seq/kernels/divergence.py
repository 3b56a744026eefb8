"""The divergence between the token distributions of two passes, computed in chunks of logits."""

# M tokens, F readout, V vocabulary

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from seq2seq.kernels.packed_matmul import product_dtype
from seq2seq.kernels.switch import kernels_are_fast

_CHUNK = 1 << 20
"""Logits of both passes that a CPU has at a time; few enough to stay near its caches."""
_CHUNK_ON_GPU = 1 << 24
"""The same on a GPU, which needs large products."""


def token_divergence(readouts: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the symmetric divergence between the token distributions of two passes.

    D = (KL(p || q) + KL(q || p)) / 2 with p = softmax(W r + b) for a readout r of the first pass
    and q for that of the second (Wu et al. 2021, "R-Drop", eq. 2).

    Args:
        readouts: r of the first pass and then of the second one, (2M, F).
        weight: W, (V, F).
        bias: b, (V,).

    Returns:
        The sum over M tokens, in nats, in fp32 or better.

    Example:
        >>> readouts, weight = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]])
        >>> round(token_divergence(readouts, weight, torch.zeros(2)).item(), 4)
        0.1155
    """
    if not kernels_are_fast():
        return _plain_divergence(readouts, weight, bias)
    dtype = product_dtype(weight)
    with torch.autocast(readouts.device.type, enabled=False):  # the function casts by itself
        found = _Divergence.apply(readouts, weight, bias, dtype)  # type: ignore[no-untyped-call]
    assert isinstance(found, Tensor)
    return found


class _Divergence(Function):
    """The divergence and its gradient, computed in one pass over the logits.

    With d = log p - log q the divergence of a token is sum_v (p_v - q_v) d_v / 2. Its gradient
    with respect to the logits of p is (p (d - sum_v p_v d_v) + p - q) / 2, and with p and q
    exchanged that of the logits of q. Only the products may use low precision.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, readouts: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype
    ) -> Tensor:
        exact = torch.promote_types(dtype, torch.float32)
        first, second = readouts.to(dtype).chunk(2)
        weight, bias = weight.to(dtype), bias.to(exact)
        grads = readouts.new_empty((2, *first.shape), dtype=exact)  # (2, M, F)
        weight_grad = torch.zeros_like(weight, dtype=exact)
        bias_grad, total = torch.zeros_like(bias), bias.new_zeros(())
        size = _chunk_rows(weight)
        for start in range(0, len(first), size):
            rows = slice(start, start + size)
            pair = torch.cat((first[rows], second[rows]))  # (2m, F)
            logits = torch.mm(pair, weight.t()).to(exact).add_(bias)
            total += _score(logits)
            bias_grad += logits.sum(0)
            errors = logits.to(dtype)
            grads[:, rows] = torch.mm(errors, weight).view(2, -1, weight.shape[1])
            weight_grad += torch.mm(errors.t(), pair)
        ctx.save_for_backward(grads.flatten(0, 1), weight_grad, bias_grad)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        grads: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(each * grad for each in grads), None


def _score(logits: Tensor) -> Tensor:
    """Return the summed divergence; the gradient overwrites the logits (2m, V) of both passes."""
    logarithms = logits.log_softmax(-1)
    log_p, log_q = logarithms.chunk(2)
    probabilities = torch.exp(logarithms, out=logits)
    p, q = probabilities.chunk(2)
    d = log_p.sub_(log_q)  # (m, V)
    difference = torch.sub(p, q, out=log_q).div_(2)
    kl_p, kl_q = (p * d).sum(-1, keepdim=True), (q * d).sum(-1, keepdim=True)
    p.mul_(d.sub_(kl_p)).div_(2).add_(difference)
    q.mul_(d.add_(kl_p).sub_(kl_q)).div_(-2).sub_(difference)
    return (kl_p - kl_q).sum() / 2


def _plain_divergence(readouts: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the divergence with torch's operations; the backward pass repeats each chunk."""
    total = readouts.new_zeros((), dtype=torch.promote_types(readouts.dtype, torch.float32))
    size = _chunk_rows(weight)
    pairs = zip(*(torch.split(each, size) for each in readouts.chunk(2)), strict=True)
    for pair in pairs:
        part = checkpoint(
            _plain_chunk, *pair, weight, bias, use_reentrant=False, preserve_rng_state=False
        )
        assert isinstance(part, Tensor)
        total = total + part
    return total


def _plain_chunk(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    logits = functional.linear(torch.cat((first, second)), weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p, log_q = logits.log_softmax(dim=-1).chunk(2)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


def _chunk_rows(weight: Tensor) -> int:
    """Return the number of tokens to work on at once."""
    num_logits = _CHUNK_ON_GPU if weight.is_cuda else _CHUNK
    return max(1, num_logits // (2 * len(weight)))
