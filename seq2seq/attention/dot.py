"""Dot-product attention, scaled or not."""

import math
from dataclasses import dataclass

from torch import Tensor

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True)
class DotConfig(AttentionConfig):
    """Dot-product attention."""

    name: str = "dot"
    scaled: bool = True
    """Divide by the square root of the key size, without which large sizes saturate."""


@register_attention(DotConfig)
class DotAttention(Attention):
    """Score q.k / sqrt(d) (Luong et al. 2015, eq. 8; scaled: Vaswani et al. 2017, eq. 1)."""

    def __init__(
        self, config: DotConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        if query_size != key_size:
            raise ValueError(
                f"attention=dot: query size {query_size} (model.decoder.hidden_size) and key size "
                f"{key_size} (2 * model.encoder.hidden_size) must be equal; make them so or "
                "choose attention=general"
            )
        self.scale = math.sqrt(key_size) if config.scaled else 1.0

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return (query / self.scale) @ keys.mT
