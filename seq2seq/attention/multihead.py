"""Multi-head attention: to a source, between two sequences, and within a sequence or its past."""

# B batch, R rows, T query length, S key length, Q query size, K key size, V value size,
# C context size (D if it is also the size of the states), N heads, t steps so far

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.base import Attention, AttentionConfig, Memory, register_attention
from seq2seq.attention.normalizers import Normalizer, fit_mask
from seq2seq.checks import Size


@dataclass(kw_only=True, slots=True, repr=False)
class MultiHeadConfig(AttentionConfig):
    """Options of `MultiHeadAttention`."""

    name: str = "multihead"
    size: Size = 256
    """Size of the projected queries, keys and values of all heads together, C."""
    num_heads: Size = 4
    """Number of heads, N; must divide `size`."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.size % self.num_heads:
            raise ValueError(
                f"attention.num_heads={self.num_heads} must divide attention.size={self.size}"
            )


@register_attention(MultiHeadConfig)
class MultiHeadAttention(Attention):
    """Concatenates and projects the contexts of N scaled dot heads (Vaswani et al. 2017, 3.2.2).

    A head scores (W_q q)^T (W_k k) / sqrt(C / N), where C / N is the size of one head. Query, key
    and value sizes are independent; the context size C is `config.size`.

    Example:
        >>> import torch
        >>> from seq2seq.attention.multihead import MultiHeadAttention, MultiHeadConfig
        >>> config = MultiHeadConfig(size=8, num_heads=2)
        >>> attention = MultiHeadAttention(config, query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(3, 5, 6))
        >>> context, weights = attention(torch.randn(3, 1, 4), memory)
        >>> context.shape, weights.shape
        (torch.Size([3, 1, 8]), torch.Size([3, 2, 1, 5]))
    """

    def __init__(
        self, config: MultiHeadConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.num_heads = config.num_heads
        self.context_size = config.size
        self.has_softmax = config.normalizer is Normalizer.softmax
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
        weights = self.normalize(self.score(query, memory.keys), memory.source_mask)
        averages = self.dropout(weights) @ self._split(memory.values)  # (B, N, T, C / N)
        return self._join(averages), weights

    def attend_without_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the context of `forward`; with softmax, no weights are stored."""
        if not self.has_softmax:
            context, _ = self.forward(query, memory)
            return context
        queries, keys = self._split(self.query_projection(query)), self._split(memory.keys)
        # fit_mask raises if the mask has the wrong shape; torch would broadcast it.
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        averages = functional.scaled_dot_product_attention(
            queries,
            keys,
            self._split(memory.values),
            attn_mask=fit_mask(memory.source_mask, scores_shape),
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        return self._join(averages)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of all heads: (B, T, Q), (B, S, C) -> (B, N, T, S)."""
        queries = self._split(self.query_projection(query) / self.scale)
        return queries @ self._split(keys).mT

    def _split(self, joined: Tensor) -> Tensor:
        # (B, L, C) -> (B, N, L, C / N), for a length L of queries or keys
        num_sources, length, size = joined.shape
        heads = joined.view(num_sources, length, self.num_heads, size // self.num_heads)
        return heads.transpose(1, 2)

    def _join(self, averages: Tensor) -> Tensor:
        # (B, N, T, C / N) -> (B, T, C)
        joined: Tensor = self.output_projection(averages.transpose(1, 2).flatten(2))
        return joined


class Attended(NamedTuple):
    """Result of attention between sequences."""

    context: Tensor
    """Context vectors, (B, T, D)."""
    weights: Tensor | None
    """Attention weights, (B, N, T, S), or None without `need_weights`."""


class CrossAttention(nn.Module):
    """Multi-head attention from one sequence to another (Vaswani et al. 2017, 3.2.3).

    Without `need_weights`, `F.scaled_dot_product_attention` computes the context and no weights
    are stored. Both ways give the same context.

    Example:
        >>> import torch
        >>> from seq2seq.attention.multihead import CrossAttention, MultiHeadConfig
        >>> config = MultiHeadConfig(size=8, num_heads=2)
        >>> attention = CrossAttention(config, query_size=4, key_size=6, value_size=6)
        >>> queries, keys = torch.randn(3, 2, 4), torch.randn(3, 5, 6)  # B=3, T=2, S=5
        >>> attended = attention(queries, keys, torch.tensor([5, 2, 3]), need_weights=True)
        >>> attended.context.shape, attended.weights.shape
        (torch.Size([3, 2, 8]), torch.Size([3, 2, 2, 5]))
    """

    def __init__(
        self, config: MultiHeadConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            config, query_size=query_size, key_size=key_size, value_size=value_size
        )

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        valid: Tensor | None = None,
        *,
        values: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """Attend from every query to the keys.

        Args:
            queries: Queries, (B, T, Q).
            keys: Keys, (B, S, K).
            valid: Lengths or a mask of the keys, as in `masked_softmax`; None if all are real.
            values: Values, (B, S, V); None if they are the keys.
            need_weights: Also return the weights.
        """
        memory = self.attention.prepare(keys, valid, values=values)
        return _attend(self.attention, queries, memory, need_weights=need_weights)


class SelfAttention(nn.Module):
    """Multi-head attention from a sequence to itself (Vaswani et al. 2017, 3.2.3).

    Example:
        >>> import torch
        >>> from seq2seq.attention.multihead import MultiHeadConfig, SelfAttention
        >>> attention = SelfAttention(MultiHeadConfig(size=8, num_heads=2))
        >>> attention(torch.randn(3, 5, 8), torch.tensor([5, 2, 3])).context.shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, config: MultiHeadConfig) -> None:
        super().__init__()
        size = config.size
        self.attention = MultiHeadAttention(config, query_size=size, key_size=size, value_size=size)

    def forward(
        self, states: Tensor, valid: Tensor | None = None, *, need_weights: bool = False
    ) -> Attended:
        """Attend from every position to the real positions.

        Args:
            states: States, (B, T, D); D is `config.size`.
            valid: Lengths or a mask of the states, as in `masked_softmax`; None if all are real.
            need_weights: Also return the weights.
        """
        memory = self._restrict(self.attention.prepare(states, valid))
        return _attend(self.attention, states, memory, need_weights=need_weights)

    def _restrict(self, memory: Memory) -> Memory:
        """Return the memory with a mask of what each position may attend to; here, every real
        position."""
        return memory


class Past(NamedTuple):
    """Projected keys and values of the positions before a causal step."""

    keys: Tensor
    """Projected keys, (R, t, D)."""
    values: Tensor
    """Projected values, (R, t, D)."""


class CausalSelfAttention(SelfAttention):
    """Self-attention in which a position attends to itself and to earlier positions only.

    A loop of `step` over the positions computes the same as one call over the sequence.

    Example:
        >>> import torch
        >>> from seq2seq.attention.multihead import CausalSelfAttention, MultiHeadConfig
        >>> attention = CausalSelfAttention(MultiHeadConfig(size=8, num_heads=2))
        >>> states = torch.randn(3, 5, 8)
        >>> context, past = attention.step(states[:, 0], attention.start(states[:, 0]))
        >>> torch.allclose(context, attention(states).context[:, 0], atol=1e-6)
        True
    """

    def start(self, state: Tensor) -> Past:
        """Return the empty past for states of shape (R, D)."""
        empty = state.new_empty(state.shape[0], 0, self.attention.context_size)
        return Past(empty, empty)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Attend from one new position to itself and its past, in time O(t).

        Args:
            state: New state of each row, (R, D).
            past: Result of `start` or of the previous step.

        Returns:
            Context (R, D) and the past including the new position.
        """
        query = state.unsqueeze(1)  # (R, 1, D)
        new = self.attention.prepare(query)
        past = Past(
            torch.cat((past.keys, new.keys), dim=1), torch.cat((past.values, new.values), dim=1)
        )
        all_real = torch.ones(past.keys.shape[:2], dtype=torch.bool, device=state.device)
        context = self.attention.attend_without_weights(query, Memory(*past, all_real))
        return context.squeeze(1), past

    def _restrict(self, memory: Memory) -> Memory:
        """Return the memory with a mask (B, T, T) of each position and those before it."""
        num_sources, length, _ = memory.keys.shape
        mask = fit_mask(memory.source_mask, (num_sources, length, length))
        causal = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        return memory._replace(source_mask=mask & causal)  # (B, T, T)


def _attend(
    attention: MultiHeadAttention, queries: Tensor, memory: Memory, *, need_weights: bool
) -> Attended:
    if need_weights:
        return Attended(*attention(queries, memory))
    return Attended(attention.attend_without_weights(queries, memory), None)
