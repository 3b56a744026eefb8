"""General (bilinear) attention."""

from dataclasses import dataclass

from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True, repr=False)
class GeneralConfig(AttentionConfig):
    """Options of `GeneralAttention`."""

    name: str = "general"


@register_attention(GeneralConfig)
class GeneralAttention(Attention):
    """Scores q^T W k (Luong et al. 2015, eq. 8).

    `prepare` computes W k once per sentence. Query and key sizes are independent.

    Example:
        >>> import torch
        >>> from seq2seq.attention.general import GeneralAttention, GeneralConfig
        >>> attention = GeneralAttention(GeneralConfig(), query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(2, 5, 6))
        >>> context, weights = attention(torch.randn(2, 3, 4), memory)
        >>> context.shape, weights.shape
        (torch.Size([2, 3, 6]), torch.Size([2, 1, 3, 5]))
    """

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
