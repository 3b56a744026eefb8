"""General (bilinear) attention."""

from dataclasses import dataclass

from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, Memory, register_attention


@dataclass(kw_only=True, slots=True)
class GeneralConfig(AttentionConfig):
    """The bilinear form has nothing to configure: its matrix joins query and key size."""


@register_attention("general", GeneralConfig)
class GeneralAttention(Attention):
    """Score q^T W k (Luong et al. 2015, eq. 8); W k is computed once per sentence."""

    def __init__(self, config: GeneralConfig, *, query_size: int, memory_size: int) -> None:
        super().__init__(config, query_size=query_size, memory_size=memory_size)
        self.key_projection = nn.Linear(memory_size, query_size, bias=False)

    def prepare(self, states: Tensor, source_mask: Tensor) -> Memory:
        return Memory(self.key_projection(states), states, source_mask)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT
