"""R-Drop: two passes with different dropout are to predict the same distributions.

Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks".
"""

# B batch, T target length, M real tokens of the batch, F readout, V vocabulary

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from seq2seq.data import Batch

_CHUNK = 16 << 20
"""Bytes of fp32 logits of one pass that are in memory at a time."""


def repeat_rows(batch: Batch) -> Batch:
    """Return a batch with all rows twice, the copies after the originals.

    Dropout is drawn for each row, so one pass over both is two passes with different dropout.
    """
    tensors = {name: each for name, each in batch._asdict().items() if each is not None}
    return batch._replace(**{name: torch.cat((each, each)) for name, each in tensors.items()})


def divergence(readouts: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the symmetric divergence between the token distributions of two passes.

    (KL(p || q) + KL(q || p)) / 2 with p = softmax(W r + b) for a readout r of the first pass and q
    for that of the second pass (Wu et al. 2021, eq. 2). The logits are computed in chunks, again
    in the backward pass, so that memory does not grow with the number of tokens.

    Args:
        readouts: r of the first pass and then of the second one, (2M, F).
        weight: W, (V, F).
        bias: b, (V,).

    Returns:
        The sum over M tokens, in nats, in fp32 or better.

    Example:
        >>> readouts, weight = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]])
        >>> round(divergence(readouts, weight, torch.zeros(2)).item(), 4)
        0.1155
    """
    total = readouts.new_zeros((), dtype=torch.promote_types(readouts.dtype, torch.float32))
    size = max(1, _CHUNK // (4 * len(weight)))
    first, second = readouts.chunk(2)
    for pair in zip(torch.split(first, size), torch.split(second, size), strict=True):
        part = checkpoint(
            _divergence, *pair, weight, bias, use_reentrant=False, preserve_rng_state=False
        )
        assert isinstance(part, Tensor)
        total = total + part
    return total


def _divergence(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    logits = functional.linear(torch.cat((first, second)), weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p, log_q = logits.log_softmax(dim=-1).chunk(2)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
