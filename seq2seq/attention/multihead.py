"""Multi-head attention."""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.base import (
    Attention,
    AttentionConfig,
    Memory,
    fit_mask,
    masked_softmax,
    register_attention,
)


@dataclass(kw_only=True, slots=True)
class MultiHeadConfig(AttentionConfig):
    """Multi-head attention."""

    name: str = "multihead"
    size: int = 256
    """Length of queries, keys and values over all heads together."""
    num_heads: int = 4

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.num_heads < 1 or self.size < 1 or self.size % self.num_heads:
            raise ValueError(
                f"attention.num_heads={self.num_heads} must divide attention.size={self.size}"
            )


@register_attention(MultiHeadConfig)
class MultiHeadAttention(Attention):
    """Concat(head_1, ..., head_N) W_o with scaled dot heads (Vaswani et al. 2017, 3.2.2).

    Each head scores with sqrt(d / N), the size of its own part of the query.
    """

    def __init__(
        self, config: MultiHeadConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.num_heads = config.num_heads
        self.context_size = config.size
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
        weights = masked_softmax(self.score(query, memory.keys), memory.source_mask)
        mixed = self.dropout(weights) @ self._split(memory.values)  # (B, N, T, C / N)
        return self._join(mixed), weights

    def mix(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the context that `forward` returns, without ever holding the weights."""
        queries, keys = self._split(self.query_projection(query)), self._split(memory.keys)
        # Checked here too: the product below would stretch a mask that does not fit.
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        mixed = functional.scaled_dot_product_attention(
            queries,
            keys,
            self._split(memory.values),
            attn_mask=fit_mask(memory.source_mask, scores_shape),
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        return self._join(mixed)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of every head, (B, N, T, S)."""
        queries = self._split(self.query_projection(query) / self.scale)
        return queries @ self._split(keys).mT

    def _split(self, joined: Tensor) -> Tensor:
        # (B, L, D) -> (B, N, L, D / N)
        num_sources, length, size = joined.shape
        heads = joined.view(num_sources, length, self.num_heads, size // self.num_heads)
        return heads.transpose(1, 2)

    def _join(self, mixed: Tensor) -> Tensor:
        # (B, N, T, C / N) -> (B, T, C)
        joined: Tensor = self.output_projection(mixed.transpose(1, 2).flatten(2))
        return joined
