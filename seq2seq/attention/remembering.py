"""Additive attention that reads the weights of earlier steps."""

# B batch, R rows (sentences, or K hypotheses of each sentence), S source length, T target length,
# Q query size, D hidden layer, F features

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig
from seq2seq.attention.base import AttentionState, Memory
from seq2seq.attention.normalizers import fit_mask


class RememberingAttention(AdditiveAttention, ABC):
    """Scores w^T tanh(W_q q + W_k k_i + U f_i) with features f_i of what was attended before.

    The state is one number for each source position, 0 before the first step. A type implements
    `features` and `update`. A call over several queries takes them as successive steps.
    """

    def __init__(
        self,
        config: AdditiveConfig,
        *,
        query_size: int,
        key_size: int,
        value_size: int,
        num_features: int = 1,
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.feature_projection = nn.Linear(num_features, config.size, bias=False)

    @abstractmethod
    def features(self, state: Tensor) -> Tensor:
        """Return the features of each position: (B, K, S) -> (B, K, S, F)."""

    @abstractmethod
    def update(self, state: Tensor, weights: Tensor) -> Tensor:
        """Return the state after a step with these weights, all (B, K, S)."""

    def start(self, memory: Memory) -> AttentionState:
        return (memory.keys.new_zeros(memory.keys.shape[:2]),)  # (B, S)

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        num_sources, source_length, _ = memory.keys.shape
        projected = self.project_query(query).view(num_sources, -1, memory.keys.shape[-1])
        before = state[0].view(num_sources, -1, source_length)  # (B, K, S)
        weights = self._weights(projected, before, memory.keys, memory.source_mask)
        context, heads = self.average(weights, memory)
        after = self.update(before, weights).flatten(0, 1)
        return context.flatten(0, 1), heads.transpose(1, 2).flatten(0, 1), (after,)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with successive queries (B, T, Q), as T calls of `step` do."""
        num_sources, source_length, _ = memory.keys.shape
        shape = (num_sources, query.shape[1], source_length)
        masks = fit_mask(memory.source_mask, shape).expand(shape)
        projected = self.project_query(query)  # (B, T, D)
        state = self.start(memory)[0].unsqueeze(1)  # (B, 1, S)
        weights = [state[:, :0]]
        for step in range(query.shape[1]):
            now = slice(step, step + 1)
            weights.append(self._weights(projected[:, now], state, memory.keys, masks[:, now]))
            state = self.update(state, weights[-1])
        return self.average(torch.cat(weights, dim=1), memory)

    def _weights(self, projected: Tensor, state: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        """Return the weights (B, K, S) of projected queries (B, K, D) with their states."""
        remembered: Tensor = self.feature_projection(self.features(state))  # (B, K, S, D)
        sums = projected.unsqueeze(2) + keys.unsqueeze(1) + remembered.to(keys.dtype)
        return self.normalize(self.score_sums(sums), valid)
