"""Coverage attention, which reads the sum of the earlier weights."""

# B batch, K rows of a sentence, S source length

from dataclasses import dataclass

from torch import Tensor

from seq2seq.attention.additive import AdditiveConfig, RememberingAttention
from seq2seq.attention.base import register_attention


@dataclass(kw_only=True, slots=True, repr=False)
class CoverageConfig(AdditiveConfig):
    """Options of `CoverageAttention`."""

    name: str = "coverage"


@register_attention(CoverageConfig)
class CoverageAttention(RememberingAttention):
    """Scores w^T tanh(W_q q + W_k k_i + u c_i), where c_i sums earlier weights (See et al. 2017).

    Equations 10 and 11 of the paper, after the coverage vector of Tu et al. 2016. A model can learn
    not to read a source token twice, and not to leave one out.

    Example:
        >>> import torch
        >>> from seq2seq.attention.coverage import CoverageAttention, CoverageConfig
        >>> attention = CoverageAttention(CoverageConfig(), query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(2, 5, 6))
        >>> state = attention.start(memory)
        >>> for query in torch.randn(3, 2, 4):
        ...     context, weights, state = attention.step(query, memory, state)
        >>> state[0].sum(dim=-1).round().tolist()  # of the weights of three steps
        [3.0, 3.0]
    """

    def features(self, state: Tensor) -> Tensor:
        return state.unsqueeze(-1)

    def update(self, state: Tensor, weights: Tensor) -> Tensor:
        return state + weights
