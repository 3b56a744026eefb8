"""Additive attention, and the types that also read the weights of earlier steps."""

# B batch, R rows (sentences, or K hypotheses of each sentence), S source length, T target length,
# Q query size, D hidden layer, F features

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.base import (
    Attention,
    AttentionConfig,
    AttentionState,
    Memory,
    register_attention,
)
from seq2seq.attention.normalizers import fit_mask
from seq2seq.checks import Size
from seq2seq.runtime.kernels.operations import tanh_


@dataclass(kw_only=True, slots=True, repr=False)
class AdditiveConfig(AttentionConfig):
    """Options of `AdditiveAttention`."""

    name: str = "additive"
    size: Size = 256
    """Number of units of the hidden layer, D."""


@register_attention(AdditiveConfig)
class AdditiveAttention(Attention):
    """Scores w^T tanh(W_q q + W_k k) (Bahdanau et al. 2015, appendix A.1.2).

    `prepare` computes W_k k once per sentence. Query and key sizes are independent.

    Example:
        >>> import torch
        >>> from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig
        >>> config = AdditiveConfig(size=64)
        >>> attention = AdditiveAttention(config, query_size=20, key_size=30, value_size=30)
        >>> memory = attention.prepare(torch.randn(2, 7, 30), torch.tensor([7, 4]))
        >>> context, weights = attention(torch.randn(2, 3, 20), memory)
        >>> context.shape, weights.shape
        (torch.Size([2, 3, 30]), torch.Size([2, 1, 3, 7]))
    """

    def __init__(
        self, config: AdditiveConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.query_projection = nn.Linear(query_size, config.size, bias=False)
        self.key_projection = nn.Linear(key_size, config.size, bias=False)
        self.score_projection = nn.Linear(config.size, 1, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        return self._to_weight_dtype(self.key_projection(keys))

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.score_sums(self.project_query(query).unsqueeze(2) + keys.unsqueeze(1))

    def project_query(self, query: Tensor) -> Tensor:
        """Project queries to the hidden layer: (..., Q) -> (..., D)."""
        return self._to_weight_dtype(self.query_projection(query))

    def score_sums(self, sums: Tensor) -> Tensor:
        """Score the inputs of the hidden layer and overwrite them: (B, T, S, D) -> (B, T, S)."""
        features = tanh_(sums)
        # Low precision would not speed up this product, and converting the features costs time.
        with torch.autocast(sums.device.type, enabled=False):
            scores: Tensor = self.score_projection(features).squeeze(-1)
        return scores

    def _to_weight_dtype(self, product: Tensor) -> Tensor:
        return product.to(self.score_projection.weight.dtype)


class RememberingAttention(AdditiveAttention, ABC):
    """Scores w^T tanh(W_q q + W_k k_i + U f_i) with features f_i of the earlier weights.

    The state is one number for each source position, 0 before the first step. A type implements
    `features` and `update`. A call with several queries treats them as successive steps.
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
        before = state[0].view(*projected.shape[:2], source_length)  # (B, K, S)
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


@dataclass(kw_only=True, slots=True, repr=False)
class LocationConfig(AdditiveConfig):
    """Options of `LocationAttention`."""

    name: str = "location"
    num_filters: Size = 8
    """Number of filters of the convolution."""
    filter_width: Size = 5
    """Number of source positions that a filter covers; if even, one more before the middle."""


@register_attention(LocationConfig)
class LocationAttention(RememberingAttention):
    """Scores w^T tanh(W_q q + W_k k_i + U f_i), f = F * previous weights (Chorowski et al. 2015).

    Equations 8 and 9 of the paper. The filters F slide over the weights of the previous step, which
    are 0 before the first step and outside the source.

    Example:
        >>> import torch
        >>> from seq2seq.attention.additive import LocationAttention, LocationConfig
        >>> attention = LocationAttention(LocationConfig(), query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(2, 5, 6))
        >>> context, weights, state = attention.step(
        ...     torch.randn(2, 4), memory, attention.start(memory)
        ... )
        >>> torch.equal(state[0], weights.squeeze(1))
        True
    """

    def __init__(
        self, config: LocationConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(
            config,
            query_size=query_size,
            key_size=key_size,
            value_size=value_size,
            num_features=config.num_filters,
        )
        # The layer reads the window around a position; each of its outputs is one filter.
        self.filters = nn.Linear(config.filter_width, config.num_filters, bias=False)

    def features(self, state: Tensor) -> Tensor:
        width = self.filters.in_features
        # One extra position, because `unfold` needs a whole window even for an empty source.
        padded = functional.pad(state, (width // 2, width // 2 + 1))
        windows = padded.unfold(-1, width, 1)[..., : state.shape[-1], :]  # (B, K, S, width)
        found: Tensor = self.filters(windows)
        return found

    def update(self, state: Tensor, weights: Tensor) -> Tensor:
        return weights


@dataclass(kw_only=True, slots=True, repr=False)
class CoverageConfig(AdditiveConfig):
    """Options of `CoverageAttention`."""

    name: str = "coverage"


@register_attention(CoverageConfig)
class CoverageAttention(RememberingAttention):
    """Scores w^T tanh(W_q q + W_k k_i + u g_i), where g_i sums earlier weights (See et al. 2017).

    Equations 10 and 11 of the paper, after the coverage vector of Tu et al. 2016. A model can learn
    not to read a source token twice, and not to leave one out.

    Example:
        >>> import torch
        >>> from seq2seq.attention.additive import CoverageAttention, CoverageConfig
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
