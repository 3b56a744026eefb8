"""Uniform attention, which averages the real source states."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True, repr=False)
class UniformConfig(AttentionConfig):
    """Options of `UniformAttention`."""

    compares_keys: ClassVar[bool] = False

    name: str = "uniform"


@register_attention(UniformConfig)
class UniformAttention(Attention):
    """Scores every position with 0; the context is the mean of the real values.

    Example:
        >>> import torch
        >>> from seq2seq.attention.uniform import UniformAttention, UniformConfig
        >>> attention = UniformAttention(UniformConfig(), query_size=4, key_size=2, value_size=2)
        >>> memory = attention.prepare(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]]),
        ...                            torch.tensor([2]))
        >>> context, weights = attention(torch.randn(1, 1, 4), memory)
        >>> context, weights
        (tensor([[[2., 3.]]]), tensor([[[[0.5000, 0.5000, 0.0000]]]]))
    """

    learns_weights = False

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(query.shape[0], query.shape[1], keys.shape[1])
