"""The baselines of a comparison: no attention, and the same weight for every position."""

from dataclasses import dataclass

from torch import Tensor

from seq2seq.attention.base import (
    Attention,
    AttentionConfig,
    AttentionState,
    Memory,
    register_attention,
)


@dataclass(kw_only=True, slots=True, repr=False)
class NoAttentionConfig(AttentionConfig):
    """Options of `NoAttention`."""

    name: str = "none"


@register_attention(NoAttentionConfig)
class NoAttention(Attention):
    """Has no heads and a context of size 0: the plain encoder-decoder (Sutskever et al. 2014).

    Example:
        >>> import torch
        >>> from seq2seq.attention.baselines import NoAttention, NoAttentionConfig
        >>> attention = NoAttention(NoAttentionConfig(), query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(2, 5, 6))
        >>> context, weights = attention(torch.randn(2, 3, 4), memory)
        >>> context.shape, weights.shape
        (torch.Size([2, 3, 0]), torch.Size([2, 0, 3, 5]))
    """

    num_heads = 0
    learns_weights = False

    def __init__(
        self, config: NoAttentionConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.context_size = 0

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return an empty context (B, T, 0) and empty weights (B, 0, T, S)."""
        num_sources, source_length, _ = memory.keys.shape
        target_length = query.shape[1]
        context = query.new_zeros(num_sources, target_length, 0)
        return context, query.new_zeros(num_sources, 0, target_length, source_length)

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        """Return an empty context (R, 0) and empty weights (R, 0, S)."""
        # The step of the base class joins axes, which ONNX cannot do for an empty tensor.
        rows, source_length = query.shape[0], memory.keys.shape[1]
        return query.new_zeros(rows, 0), query.new_zeros(rows, 0, source_length), state

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return zeros, (B, T, S), which nothing reads."""
        return query.new_zeros(*query.shape[:2], keys.shape[1])


@dataclass(kw_only=True, slots=True, repr=False)
class UniformConfig(AttentionConfig):
    """Options of `UniformAttention`."""

    name: str = "uniform"


@register_attention(UniformConfig)
class UniformAttention(Attention):
    """Scores every position with 0; the context is the mean of the real values.

    Example:
        >>> import torch
        >>> from seq2seq.attention.baselines import UniformAttention, UniformConfig
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
