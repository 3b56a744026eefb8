"""No attention: the plain encoder-decoder, the baseline of every comparison."""

from dataclasses import dataclass

from torch import Tensor

from seq2seq.attention.base import Attention, AttentionConfig, Memory, register_attention


@dataclass(kw_only=True, slots=True)
class NoAttentionConfig(AttentionConfig):
    """The baseline has nothing to configure."""

    name: str = "none"


@register_attention(NoAttentionConfig)
class NoAttention(Attention):
    """Attend to nothing: zero heads and a context of size 0 (Sutskever et al. 2014)."""

    num_heads = 0

    def __init__(
        self, config: NoAttentionConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.context_size = 0

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return a context (B, T, 0) and weights (B, 0, T, S)."""
        num_sources, source_length, _ = memory.keys.shape
        target_length = query.shape[1]
        context = query.new_zeros(num_sources, target_length, 0)
        return context, query.new_zeros(num_sources, 0, target_length, source_length)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        raise NotImplementedError("without attention nothing is scored")
