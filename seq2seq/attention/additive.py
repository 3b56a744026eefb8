"""Additive attention."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True)
class AdditiveConfig(AttentionConfig):
    """Additive attention."""

    name: str = "additive"
    size: int = 256
    """Length of the hidden layer that scores."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.size < 1:
            raise ValueError(f"attention.size={self.size} must be at least 1")


@register_attention(AdditiveConfig)
class AdditiveAttention(Attention):
    """Score w_v^T tanh(W_q q + W_k k) (Bahdanau et al. 2015, appendix A.1.2).

    W_k k is computed once per sentence.
    """

    def __init__(
        self, config: AdditiveConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.query_projection = nn.Linear(query_size, config.size, bias=False)
        self.key_projection = nn.Linear(key_size, config.size, bias=False)
        self.score_projection = nn.Linear(config.size, 1, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        return self._exact(self.key_projection(keys))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        projected = self._exact(self.query_projection(query)).unsqueeze(2)  # (B, T, 1, D)
        features = (projected + keys.unsqueeze(1)).tanh_()  # (B, T, S, D)
        # A vector's product gains nothing by a low precision, and to convert features costs time.
        with torch.autocast(keys.device.type, enabled=False):
            scores: Tensor = self.score_projection(features).squeeze(-1)
        return scores

    def _exact(self, product: Tensor) -> Tensor:
        return product.to(self.score_projection.weight.dtype)
