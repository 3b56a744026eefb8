"""The interface that every attention type implements, and the registry of the types."""

# B batch, R rows (sentences, or the hypotheses of a beam), S source length, T target length,
# Q query size, K key size, V value size, D size of a projected key, C context size, N heads

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.attention.normalizers import NORMALIZERS, Normalizer, lengths_to_mask
from seq2seq.checks import Config, Probability
from seq2seq.registry import Registry


@dataclass(kw_only=True, slots=True, repr=False)
class AttentionConfig(Config, section="attention"):
    """Options that all attention types have.

    A type derives a dataclass from this class, gives `name` a default value and adds its own
    options.
    """

    name: str
    """Name of the type in the registry, as in `attention=additive`."""
    dropout: Probability = 0.0
    """Probability of dropping a weight before the values are averaged."""
    normalizer: Normalizer = Normalizer.softmax
    """Function that turns scores into weights: softmax, or for sparse weights sparsemax or
    entmax15."""


AttentionState = tuple[Tensor, ...]
"""Tensors (R, ...) that a type passes from step to step; empty unless the type needs earlier
steps."""


class Memory(NamedTuple):
    """Keys, values and mask of a batch of sources, computed once by `Attention.prepare`."""

    keys: Tensor
    """Projected keys, (B, S, D)."""
    values: Tensor
    """Projected values, (B, S, C)."""
    source_mask: Tensor
    """Mask (B, S), or (B, T, S) if it differs between queries; True at real positions."""

    def select(self, sentences: Tensor) -> "Memory":
        """Return the memory of the given sentences, in the given order."""
        return Memory(*(part.index_select(0, sentences) for part in self))

    def average(self, weights: Tensor) -> Tensor:
        """Return the averages (B, T, C) of the values with weights (B, T, S)."""
        # The weights may have a higher precision than the values.
        return weights.to(self.values.dtype) @ self.values


class Attention(nn.Module, ABC):
    """Scores the source positions against a query and averages their values.

    A type implements `score`. It overrides `project_keys` or `project_values` if it projects keys
    or values. A call changes no attribute, so beam search and several threads can share a module.

    Args:
        config: Config of the type.
        query_size: Size of a query, Q.
        key_size: Size of a key, K.
        value_size: Size of a value, V.
    """

    num_heads: int = 1
    """Number of heads, N."""
    learns_weights: bool = True
    """Whether the weights depend on trained parameters."""
    context_size: int
    """Size of a context vector, C."""

    def __init__(
        self, config: AttentionConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__()
        self.context_size = value_size
        self.dropout = nn.Dropout(config.dropout)
        self.normalize = NORMALIZERS[config.normalizer]

    def prepare(
        self, keys: Tensor, valid: Tensor | None = None, *, values: Tensor | None = None
    ) -> Memory:
        """Compute everything that does not depend on a query, once per source.

        Args:
            keys: Keys, (B, S, K); encoder states in the translator.
            valid: Lengths or a mask of the keys, as in `masked_softmax`; None if all are real.
            values: Values, (B, S, V); None if they are the keys.
        """
        values = keys if values is None else values
        if valid is None:
            valid = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        elif valid.dtype != torch.bool:
            valid = lengths_to_mask(valid, keys.shape[1])
        return Memory(self.project_keys(keys), self.project_values(values), valid)

    def project_keys(self, keys: Tensor) -> Tensor:
        """Project the keys for `score`: (B, S, K) -> (B, S, D)."""
        return keys

    def project_values(self, values: Tensor) -> Tensor:
        """Project the values: (B, S, V) -> (B, S, C)."""
        device = values.device.type
        if values.dtype == torch.float32 and torch.is_autocast_enabled(device):
            # Otherwise each decoder step would convert the values again.
            return values.to(torch.get_autocast_dtype(device))
        return values

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Average the values, weighted by how well their keys fit the query.

        Args:
            query: Queries, (B, T, Q); decoder states in the translator. A type that reads earlier
                weights treats the queries as successive steps.
            memory: Result of `prepare` for these sources.

        Returns:
            Context (B, T, C) and weights (B, N, T, S). Weights of padding are exactly 0, all other
            weights sum to 1. Without a real position, weights and context are 0.
        """
        weights = self.normalize(self.score(query, memory.keys), memory.source_mask)  # (B, T, S)
        return self.average(weights, memory)

    def start(self, memory: Memory) -> AttentionState:
        """Return the state before the first step; empty unless the type needs earlier steps."""
        return ()

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        """Attend with one query of each row.

        Args:
            query: Queries, (R, Q).
            memory: Memory of B sentences; R is a multiple of B, and the rows of a sentence are
                adjacent.
            state: Result of `start`, with R rows, or of the previous step.

        Returns:
            Context (R, C), weights (R, N, S) and the state after this step.
        """
        queries = query.view(memory.keys.shape[0], -1, query.shape[-1])  # (B, K, Q)
        context, weights = self(queries, memory)
        rows = weights.transpose(1, 2).reshape(query.shape[0], *weights.shape[1::2])
        return context.flatten(0, 1), rows, state

    def average(self, weights: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the context (B, T, C) of weights (B, T, S), and the weights as one head."""
        return memory.average(self.dropout(weights)), weights.unsqueeze(1)

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Score each projected key against each query: (B, T, Q), (B, S, D) -> (B, T, S)."""


class PositionalAttention(Attention, ABC):
    """Scores that depend on the position of the target token, counted from 0.

    A type implements `score_at`. The state counts the steps of each row, so that a type needs no
    state of its own.

    Example:
        >>> import torch
        >>> from seq2seq.attention.base import PositionalAttention
        >>> from seq2seq.attention.dot import DotConfig
        >>> class DiagonalAttention(PositionalAttention):
        ...     def score_at(self, positions, query, keys):
        ...         source_positions = torch.arange(keys.shape[1], device=keys.device)
        ...         return query @ keys.mT - (source_positions - positions).square()
        >>> attention = DiagonalAttention(DotConfig(), query_size=4, key_size=4, value_size=4)
        >>> memory = attention.prepare(torch.zeros(1, 3, 4))
        >>> attention(torch.zeros(1, 3, 4), memory)[1].argmax(-1)
        tensor([[[0, 1, 2]]])
    """

    @abstractmethod
    def score_at(self, positions: Tensor, query: Tensor, keys: Tensor) -> Tensor:
        """Score each projected key against each query, given the positions of the queries.

        Args:
            positions: Position of the target token of each query, (B, T, 1) or (1, T, 1).
            query: Queries, (B, T, Q).
            keys: Projected keys, (B, S, D).

        Returns:
            Scores, (B, T, S).
        """

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        positions = torch.arange(query.shape[1], dtype=torch.float32, device=query.device)
        return self.score_at(positions.view(1, -1, 1), query, keys)

    def start(self, memory: Memory) -> AttentionState:
        # Every state of an exported graph is in single precision.
        return (memory.keys.new_zeros(memory.keys.shape[0], dtype=torch.float32),)

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        (steps,) = state
        num_sources = memory.keys.shape[0]
        queries = query.view(num_sources, -1, query.shape[-1])  # (B, K, Q)
        scores = self.score_at(steps.view(num_sources, -1, 1), queries, memory.keys)
        weights = self.normalize(scores, memory.source_mask)  # (B, K, S)
        context, heads = self.average(weights, memory)
        return context.flatten(0, 1), heads.transpose(1, 2).flatten(0, 1), (steps + 1,)


ATTENTION = Registry[type[Attention]]("attention")
"""The attention types, by name and by the type of their config."""
register_attention = ATTENTION.register


def check_equal_sizes(setting: str, query_size: int, key_size: int, way_out: str) -> None:
    """Raise ValueError unless query and key, which are compared without projections, fit."""
    if query_size != key_size:
        raise ValueError(
            f"{setting}: query size {query_size} (model.decoder.hidden_size) and key size "
            f"{key_size} (2 * model.encoder.hidden_size) must be equal; change one or {way_out}"
        )


def attention_config_types() -> dict[str, type[AttentionConfig]]:
    """Return the config types of all registered attention types by name.

    Example:
        >>> from seq2seq.attention.base import attention_config_types
        >>> attention_config_types()["additive"]().size
        256
    """
    return ATTENTION.config_types()


def build_attention(
    config: AttentionConfig, *, query_size: int, key_size: int, value_size: int
) -> Attention:
    """Build the attention module of a config.

    Args:
        config: Config of a registered type.
        query_size: Size of a query, Q; the size of a decoder state in the translator.
        key_size: Size of a key, K; the size of an encoder state in the translator.
        value_size: Size of a value, V; the size of an encoder state in the translator.

    Raises:
        ValueError: The type is not registered, or cannot be built with these sizes.

    Example:
        >>> import torch
        >>> from seq2seq.attention.additive import AdditiveConfig
        >>> from seq2seq.attention.base import build_attention
        >>> config = AdditiveConfig(size=64)
        >>> attention = build_attention(config, query_size=20, key_size=30, value_size=40)
        >>> keys, values = torch.randn(2, 7, 30), torch.randn(2, 7, 40)  # B=2, S=7
        >>> memory = attention.prepare(keys, torch.tensor([7, 4]), values=values)
        >>> context, weights = attention(torch.randn(2, 3, 20), memory)  # T=3
        >>> context.shape, weights.shape
        (torch.Size([2, 3, 40]), torch.Size([2, 1, 3, 7]))
    """
    build = ATTENTION.find(config)
    return build(config, query_size=query_size, key_size=key_size, value_size=value_size)
