"""Multi-head attention."""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.base import Attention, AttentionConfig, Memory, register_attention
from seq2seq.attention.normalizers import Normalizer, fit_mask
from seq2seq.checks import Size


@dataclass(kw_only=True, slots=True, repr=False)
class MultiHeadConfig(AttentionConfig):
    """Options of `MultiHeadAttention`."""

    name: str = "multihead"
    size: Size = 256
    """Size of the projected queries, keys and values of all heads together, C."""
    num_heads: Size = 4
    """Number of heads, N; must divide `size`."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.size % self.num_heads:
            raise ValueError(
                f"attention.num_heads={self.num_heads} must divide attention.size={self.size}"
            )


@register_attention(MultiHeadConfig)
class MultiHeadAttention(Attention):
    """Concatenates and projects the contexts of N scaled dot heads (Vaswani et al. 2017, 3.2.2).

    A head scores (W_q q)^T (W_k k) / sqrt(C / N), where C / N is the size of one head. Query, key
    and value sizes are independent; the context size C is `config.size`.

    Example:
        >>> import torch
        >>> from seq2seq.attention import MultiHeadAttention, MultiHeadConfig
        >>> config = MultiHeadConfig(size=8, num_heads=2)
        >>> attention = MultiHeadAttention(config, query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(3, 5, 6))
        >>> context, weights = attention(torch.randn(3, 1, 4), memory)
        >>> context.shape, weights.shape
        (torch.Size([3, 1, 8]), torch.Size([3, 2, 1, 5]))
    """

    def __init__(
        self, config: MultiHeadConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.num_heads = config.num_heads
        self.context_size = config.size
        self.has_softmax = config.normalizer is Normalizer.softmax
        self.scale = math.sqrt(config.size // config.num_heads)
        self.query_projection = nn.Linear(query_size, config.size, bias=False)
        self.key_projection = nn.Linear(key_size, config.size, bias=False)
        self.value_projection = nn.Linear(value_size, config.size, bias=False)
        self.output_projection = nn.Linear(config.size, config.size, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_projection(keys)
        return projected

    def project_values(self, values: Tensor) -> Tensor:
        projected: Tensor = self.value_projection(values)
        return projected

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        weights = self.normalize(self.score(query, memory.keys), memory.source_mask)
        averages = self.dropout(weights) @ self._split(memory.values)  # (B, N, T, C / N)
        return self._join(averages), weights

    def attend_without_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the context of `forward`; with softmax, no weights are stored."""
        if not self.has_softmax:
            context, _ = self.forward(query, memory)
            return context
        queries, keys = self._split(self.query_projection(query)), self._split(memory.keys)
        # fit_mask raises for a mask that does not fit; torch would broadcast it.
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        averages = functional.scaled_dot_product_attention(
            queries,
            keys,
            self._split(memory.values),
            attn_mask=fit_mask(memory.source_mask, scores_shape),
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        return self._join(averages)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of all heads: (B, T, Q), (B, S, C) -> (B, N, T, S)."""
        queries = self._split(self.query_projection(query) / self.scale)
        return queries @ self._split(keys).mT

    def _split(self, joined: Tensor) -> Tensor:
        # (B, L, C) -> (B, N, L, C / N), for a length L of queries or keys
        num_sources, length, size = joined.shape
        heads = joined.view(num_sources, length, self.num_heads, size // self.num_heads)
        return heads.transpose(1, 2)

    def _join(self, averages: Tensor) -> Tensor:
        # (B, N, T, C / N) -> (B, T, C)
        joined: Tensor = self.output_projection(averages.transpose(1, 2).flatten(2))
        return joined
