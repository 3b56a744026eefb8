"""Uniform attention: the average of the real source states."""

from dataclasses import dataclass

from torch import Tensor

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True)
class UniformConfig(AttentionConfig):
    """Average pooling has nothing to configure."""

    name: str = "uniform"


@register_attention(UniformConfig)
class UniformAttention(Attention):
    """Score every position alike: average pooling over the real tokens."""

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query.new_zeros(query.shape[0], query.shape[1], keys.shape[1])
