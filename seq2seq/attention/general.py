"""General (bilinear) attention."""

from dataclasses import dataclass

from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True)
class GeneralConfig(AttentionConfig):
    """The bilinear form has nothing to configure: its matrix joins query and key size."""

    name: str = "general"


@register_attention(GeneralConfig)
class GeneralAttention(Attention):
    """Score q^T W k (Luong et al. 2015, eq. 8); W k is computed once per sentence."""

    def __init__(
        self, config: GeneralConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.key_projection = nn.Linear(key_size, query_size, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_projection(keys)
        return projected

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT
