"""Attention over whole sequences, and sequences to try it on, for tests."""

# B batch, S source length, T target length, D model size

from typing import TypeVar

import torch
from tiny_models import VALUE_SIZE
from torch import Tensor

from seq2seq.attention import CausalSelfAttention, CrossAttention, MultiHeadConfig, SelfAttention

SequenceModule = TypeVar("SequenceModule", CrossAttention, SelfAttention, CausalSelfAttention)


def sequence_attention(
    kind: type[SequenceModule],
    num_heads: int = 2,
    *,
    dropout: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> SequenceModule:
    """Build a module over whole sequences; across two of them every size is another."""
    torch.manual_seed(1)
    config = MultiHeadConfig(name="multihead", dropout=dropout, size=8, num_heads=num_heads)
    across = kind is CrossAttention
    sizes = {"query_size": 4, "key_size": 6, "value_size": VALUE_SIZE} if across else {}
    return kind(config, **sizes).to(dtype)


def draw_sequences(
    kind: type[SequenceModule], *, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Draw queries, keys and values, B=3, T=4, S=5, or the one sequence that is all three, S=5."""
    generator = torch.Generator().manual_seed(2)
    shapes = [(3, 4, 4), (3, 5, 6), (3, 5, VALUE_SIZE)] if kind is CrossAttention else [(3, 5, 8)]
    drawn = [torch.randn(*one, generator=generator, dtype=torch.float64) for one in shapes]
    return [part.to(dtype).requires_grad_() for part in drawn]
