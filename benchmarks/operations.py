"""Floating-point operations of an update, and the rate at which a machine multiplies matrices."""

import re
import time

import torch

from seq2seq.data.batching import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.kernels.operations import product_dtype
from seq2seq.runtime.numerics import Numerics


def count_operations(model: Seq2Seq, batch: Batch) -> float:
    """Compute the floating-point operations of an update per target token.

    Each weight costs one multiplication and one addition per token in the forward pass, and twice
    as many in the backward pass. Encoder, key and value projections process source tokens; the
    other weights process target tokens; attention scores and contexts process pairs of both.
    Padding, lookups and elementwise operations are not counted.
    """
    ratio = float(batch.source_mask.sum() / batch.target_mask.sum())
    num_sources = float(batch.source_mask.sum(1).float().mean())
    weights = {False: 0, True: 0}
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and "embedding" not in name and "bridge" not in name:
            is_of_source = re.match("encoder|.*(key|value)_projection", name) is not None
            weights[is_of_source] += weight.numel()
    heads = model.attention.num_heads > 0
    keys = getattr(model.attention, "key_projection", None)
    scored = keys.out_features if isinstance(keys, torch.nn.Linear) else model.encoder.states_size
    pairs = num_sources * (scored + model.attention.context_size) * heads
    return 3 * 2 * (weights[False] + ratio * weights[True] + pairs)


def product_rate(numerics: Numerics, size: int | None = None) -> float:
    """Return the operations per second of a product of square matrices in this precision."""
    if size is None:
        size = 8192 if numerics.device.type == "cuda" else 2048  # a GPU would only be waited for
    a = torch.randn(size, size, device=numerics.device)
    times = []
    with numerics.autocast():
        a = a.to(product_dtype(a))
        for _ in range(4):
            started = time.perf_counter()
            (a @ a)[0, 0].item()
            times.append(time.perf_counter() - started)
    return 2 * size**3 / min(times)
