"""Attention by dot products: of query and key, or with a learned matrix between them."""

import math
from dataclasses import dataclass

from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, check_equal_sizes, register_attention


@dataclass(kw_only=True, slots=True, repr=False)
class DotConfig(AttentionConfig):
    """Options of `DotAttention`."""

    name: str = "dot"
    scaled: bool = True
    """Divide the scores by sqrt(K), because large sizes saturate the softmax otherwise."""


@register_attention(DotConfig)
class DotAttention(Attention):
    """Scores q^T k / sqrt(K) (Luong et al. 2015, section 3.1; scaled: Vaswani et al. 2017, eq. 1).

    Raises:
        ValueError: Query size and key size differ.

    Example:
        >>> import torch
        >>> from seq2seq.attention.dot import DotAttention, DotConfig
        >>> attention = DotAttention(DotConfig(), query_size=2, key_size=2, value_size=2)
        >>> memory = attention.prepare(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]))
        >>> context, weights = attention(torch.tensor([[[1.0, 2.0]]]), memory)
        >>> weights
        tensor([[[[0.1400, 0.2840, 0.5760]]]])
    """

    def __init__(
        self, config: DotConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        check_equal_sizes("attention=dot", query_size, key_size, "choose attention=general")
        self.scale = math.sqrt(key_size) if config.scaled else 1.0

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return (query / self.scale) @ keys.mT


@dataclass(kw_only=True, slots=True, repr=False)
class GeneralConfig(AttentionConfig):
    """Options of `GeneralAttention`."""

    name: str = "general"


@register_attention(GeneralConfig)
class GeneralAttention(Attention):
    """Scores q^T W k (Luong et al. 2015, section 3.1).

    `prepare` computes W k once per sentence. Query and key sizes are independent.

    Example:
        >>> import torch
        >>> from seq2seq.attention.dot import GeneralAttention, GeneralConfig
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
