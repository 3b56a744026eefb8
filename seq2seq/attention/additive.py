"""Additive attention."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, register_attention
from seq2seq.checks import Size


@dataclass(kw_only=True, slots=True, repr=False)
class AdditiveConfig(AttentionConfig):
    """Options of `AdditiveAttention`."""

    name: str = "additive"
    size: Size = 256
    """Number of units of the hidden layer, D."""


@register_attention(AdditiveConfig)
class AdditiveAttention(Attention):
    """Scores w^T tanh(W_q q + W_k k) (Bahdanau et al. 2015, appendix A.1.2).

    `prepare` computes W_k k once per sentence. Query and key sizes are independent.

    Example:
        >>> import torch
        >>> from seq2seq.attention import AdditiveAttention, AdditiveConfig
        >>> config = AdditiveConfig(size=64)
        >>> attention = AdditiveAttention(config, query_size=20, key_size=30, value_size=30)
        >>> memory = attention.prepare(torch.randn(2, 7, 30), torch.tensor([7, 4]))
        >>> context, weights = attention(torch.randn(2, 3, 20), memory)
        >>> context.shape, weights.shape
        (torch.Size([2, 3, 30]), torch.Size([2, 1, 3, 7]))
    """

    def __init__(
        self, config: AdditiveConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.query_projection = nn.Linear(query_size, config.size, bias=False)
        self.key_projection = nn.Linear(key_size, config.size, bias=False)
        self.score_projection = nn.Linear(config.size, 1, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        return self._to_weight_dtype(self.key_projection(keys))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.score_sums(self.project_query(query).unsqueeze(2) + keys.unsqueeze(1))

    def project_query(self, query: Tensor) -> Tensor:
        """Project queries to the hidden layer: (..., Q) -> (..., D)."""
        return self._to_weight_dtype(self.query_projection(query))

    def score_sums(self, sums: Tensor) -> Tensor:
        """Score the inputs of the hidden layer and overwrite them: (B, T, S, D) -> (B, T, S)."""
        features = sums.tanh_()
        # A low precision would not speed up this product; converting the features costs time.
        with torch.autocast(sums.device.type, enabled=False):
            scores: Tensor = self.score_projection(features).squeeze(-1)
        return scores

    def _to_weight_dtype(self, product: Tensor) -> Tensor:
        return product.to(self.score_projection.weight.dtype)
