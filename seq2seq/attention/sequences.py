"""Attention of whole sequences: across two of them, within one, and within its past."""

# B batch, R rows, T query length, S key length, Q query size, K key size, V value size,
# D model size, N heads, t steps so far

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Memory, fit_mask
from seq2seq.attention.multihead import MultiHeadAttention, MultiHeadConfig


class Attended(NamedTuple):
    """What a sequence saw."""

    context: Tensor  # (B, T, D)
    weights: Tensor | None  # (B, N, T, S), where they were asked for


class CrossAttention(nn.Module):
    """Queries from one sequence, keys and values from another (Vaswani et al. 2017, 3.2.3).

    Without weights to return, the context comes from `F.scaled_dot_product_attention`, which
    never holds them; with weights it comes from the definition. Both agree.
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
        """Let every query look at the keys.

        Args:
            queries: (B, T, Q).
            keys: (B, S, K).
            valid: which keys are real: lengths (B,) or (B, T), or a bool mask (B, S) or
                (B, T, S), True = real; None: all.
            values: (B, S, V); None takes the keys.
            need_weights: return the weights too.
        """
        memory = self.attention.prepare(keys, valid, values=values)
        return _attend(self.attention, queries, memory, need_weights=need_weights)


class SelfAttention(nn.Module):
    """Queries, keys and values from one sequence, whose states are as long as the contexts."""

    def __init__(self, config: MultiHeadConfig) -> None:
        super().__init__()
        size = config.size
        self.attention = MultiHeadAttention(config, query_size=size, key_size=size, value_size=size)

    def forward(
        self, states: Tensor, valid: Tensor | None = None, *, need_weights: bool = False
    ) -> Attended:
        """Let every position look at the real ones.

        Args:
            states: (B, T, D).
            valid: which are real, as in `CrossAttention`.
            need_weights: return the weights too.
        """
        memory = self._restrict(self.attention.prepare(states, valid))
        return _attend(self.attention, states, memory, need_weights=need_weights)

    def _restrict(self, memory: Memory) -> Memory:
        return memory


class Past(NamedTuple):
    """What a causal step has seen: projected once, never again."""

    keys: Tensor  # (R, t, D)
    values: Tensor  # (R, t, D)

    def select(self, rows: Tensor) -> "Past":
        """Keep the given rows, in the given order."""
        return Past(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class CausalSelfAttention(SelfAttention):
    """Self-attention in which a position sees itself and what came before it, nothing later."""

    def start(self, state: Tensor) -> Past:
        """Return the empty past of rows (R, D)."""
        nothing = state.new_empty(state.shape[0], 0, self.attention.context_size)
        return Past(nothing, nothing)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Let one new position look at itself and its past, at a cost that grows with that alone.

        Args:
            state: the new position of each row, (R, D).
            past: what `start` or the step before returned.

        Returns:
            Context (R, D) and the past with the new position.
        """
        query = state.unsqueeze(1)  # (R, 1, D)
        new = self.attention.prepare(query)
        past = Past(
            torch.cat((past.keys, new.keys), dim=1), torch.cat((past.values, new.values), dim=1)
        )
        all_real = torch.ones(past.keys.shape[:2], dtype=torch.bool, device=state.device)
        context = self.attention.mix(query, Memory(*past, all_real))
        return context.squeeze(1), past

    def _restrict(self, memory: Memory) -> Memory:
        num_sources, length, _ = memory.keys.shape
        mask = fit_mask(memory.source_mask, (num_sources, length, length))
        causal = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        return memory._replace(source_mask=mask & causal)  # (B, T, T)


def _attend(
    attention: MultiHeadAttention, queries: Tensor, memory: Memory, *, need_weights: bool
) -> Attended:
    if need_weights:
        return Attended(*attention(queries, memory))
    return Attended(attention.mix(queries, memory), None)
