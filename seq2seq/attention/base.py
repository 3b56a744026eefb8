"""The contract that every attention type keeps, its masked softmax and its registry."""

# B batch, S source length, T target length, Q query size, K key size, V value size,
# D length of what `project_keys` makes, C context size, N heads

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn


@dataclass(kw_only=True, slots=True)
class AttentionConfig:
    """What every attention type is configured by."""

    name: str
    dropout: float = 0.0
    """Probability with which a weight is dropped before the values are mixed."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ValueError(f"attention.dropout={self.dropout} must lie in [0, 1)")


class Memory(NamedTuple):
    """What attention looks at: made once per source sentence by `Attention.prepare`."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, C)
    source_mask: Tensor  # (B, S), or (B, T, S) where queries differ in what they may see

    def select(self, sentences: Tensor) -> "Memory":
        """Keep the given sentences, in the given order."""
        return Memory(*(part.index_select(0, sentences) for part in self))


class Attention(nn.Module, ABC):
    """Score the source positions against a query and mix their values.

    Nothing but parameters is stored on the module, so one module may serve beam search, threads
    and compilation at once. A subclass defines `score`; it overrides `project_keys` or
    `project_values` where it looks at projections.
    """

    num_heads: int = 1
    context_size: int

    def __init__(
        self, config: AttentionConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__()
        self.context_size = value_size
        self.dropout = nn.Dropout(config.dropout)

    def prepare(
        self, keys: Tensor, valid: Tensor | None = None, *, values: Tensor | None = None
    ) -> Memory:
        """Do once for all steps what needs no query.

        Args:
            keys: what queries are compared with, (B, S, K); the translator's encoder states.
            valid: which of them are real, as `masked_softmax` takes it; None: all.
            values: what is mixed, (B, S, V); None takes the keys.

        Raises:
            ValueError: there is not one value for each key.
        """
        values = keys if values is None else values
        if values.shape[:2] != keys.shape[:2]:
            raise ValueError(
                f"values of shape {tuple(values.shape)} do not fit keys of shape "
                f"{tuple(keys.shape)}; give one value for each key"
            )
        if valid is None:
            valid = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        elif valid.dtype != torch.bool:
            valid = lengths_to_mask(valid, keys.shape[1])
        return Memory(self.project_keys(keys), self.project_values(values), valid)

    def project_keys(self, keys: Tensor) -> Tensor:
        """Return what `score` compares with queries: (B, S, K) -> (B, S, D)."""
        return keys

    def project_values(self, values: Tensor) -> Tensor:
        """Return what is mixed: (B, S, V) -> (B, S, C)."""
        return values

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Mix the values by their fit to the query.

        Args:
            query: decoder states, (B, T, Q); T is 1 in a step.
            memory: what `prepare` returned for these sources.

        Returns:
            Context (B, T, C) and weights (B, N, T, S); weights of padding are exactly 0, the
            others sum to 1; a source without a real token gets zeros.
        """
        weights = masked_softmax(self.score(query, memory.keys), memory.source_mask)  # (B, T, S)
        # Scores may be more exact than the values.
        mixed = self.dropout(weights).to(memory.values.dtype) @ memory.values
        return mixed, weights.unsqueeze(1)

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return how well each key fits each query: (B, T, Q), (B, S, D) -> (B, T, S)."""


def masked_softmax(scores: Tensor, valid: Tensor) -> Tensor:
    """Normalise scores over the last axis with weight exactly 0 where not valid.

    Args:
        scores: (B, T, S) or, with heads, (B, N, T, S).
        valid: lengths of shape (B,) or (B, T), or a bool mask of shape (B, S) or (B, T, S),
            True = real.

    Returns:
        Weights of the shape of `scores`. A row without a valid position is all zeros, not NaN.

    Raises:
        ValueError: `valid` has a shape that fits none of these.
    """
    mask = fit_mask(valid, scores.shape)
    lowest = torch.finfo(scores.dtype).min
    weights = torch.where(mask, scores, lowest).softmax(dim=-1)
    # A row of nothing but padding came out uniform; elsewhere padding is 0 already.
    return torch.where(mask, weights, 0.0)


def fit_mask(valid: Tensor, scores_shape: tuple[int, ...]) -> Tensor:
    """Return the mask that `valid` stands for in `masked_softmax`, with the axes of the scores.

    Returns:
        Mask (B, 1 or T, S) for scores (B, T, S), (B, 1, 1 or T, S) for scores (B, N, T, S).

    Raises:
        ValueError: `valid` does not fit the scores.
    """
    mask = valid if valid.dtype == torch.bool else lengths_to_mask(valid, scores_shape[-1])
    rows, (targets, sources) = scores_shape[:1], scores_shape[-2:]
    fitting = ((*rows, sources), (*rows, targets, sources))
    if len(scores_shape) not in (3, 4) or mask.shape not in fitting:
        kind = "a mask" if valid.dtype == torch.bool else "lengths"
        raise ValueError(
            f"attention: {kind} of shape {tuple(valid.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}; give lengths (B,) or (B, T) or a mask (B, S) or (B, T, S)"
        )
    if mask.dim() == 2:
        mask = mask.unsqueeze(1)  # (B, 1, S)
    return mask.unsqueeze(1) if len(scores_shape) == 4 else mask


def lengths_to_mask(lengths: Tensor, size: int) -> Tensor:
    """Turn lengths (...) into a mask (..., size), True = real.

    Raises:
        ValueError: a length is negative or exceeds the size.
    """
    if lengths.numel() > 0 and not 0 <= int(lengths.min()) <= int(lengths.max()) <= size:
        raise ValueError(
            f"attention: lengths from {int(lengths.min())} to {int(lengths.max())} do not fit "
            f"{size} keys"
        )
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


_registry: dict[type[AttentionConfig], type[Attention]] = {}
_names: dict[str, type[AttentionConfig]] = {}

_AttentionType = TypeVar("_AttentionType", bound=type[Attention])


def register_attention(
    config_type: type[AttentionConfig],
) -> Callable[[_AttentionType], _AttentionType]:
    """Register the decorated module under its config's type and the default of its `name`.

    Raises:
        ValueError: The config has no default name, or the name or the config is registered already.
    """
    name = next(field.default for field in fields(config_type) if field.name == "name")
    if not isinstance(name, str):
        raise ValueError(f"{config_type.__name__} needs a name: `name: str = ...`")
    if name in _names or config_type in _registry:
        raise ValueError(f"attention {name!r} or its config {config_type.__name__} is taken")

    def register(attention_type: _AttentionType) -> _AttentionType:
        _names[name] = config_type
        _registry[config_type] = attention_type
        return attention_type

    return register


def attention_config_types() -> dict[str, type[AttentionConfig]]:
    """Return the config type of every registered name."""
    return dict(_names)


def build_attention(
    config: AttentionConfig, *, query_size: int, key_size: int, value_size: int
) -> Attention:
    """Build the module that is registered for the config's type.

    Args:
        config: an attention's config.
        query_size: length of a query; in the translator of a decoder state.
        key_size: length of a key; in the translator of an encoder state, which is the value too.
        value_size: length of a value.

    Raises:
        ValueError: the type asks for sizes that these are not.
    """
    build = _registry[type(config)]
    return build(config, query_size=query_size, key_size=key_size, value_size=value_size)
