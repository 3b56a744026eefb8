"""Every registered attention type in small sizes, and inputs for attention, for tests."""

# B batch, S source length, T target length, Q query size, K key size, V value size, D model size

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeVar, get_args

import torch
from torch import Tensor

from seq2seq.attention.base import (
    Attention,
    AttentionConfig,
    PositionalAttention,
    attention_config_types,
    build_attention,
)
from seq2seq.attention.multihead import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadConfig,
    SelfAttention,
)
from seq2seq.attention.normalizers import Normalizer

LARGEST_SIZE = 8

SequenceModule = TypeVar("SequenceModule", CrossAttention, SelfAttention, CausalSelfAttention)


def make_weights(num_heads: int, num_rows: int = 3, num_columns: int = 5) -> Tensor:
    """Return random attention weights (N, T, S)."""
    generator = torch.Generator().manual_seed(4)
    return torch.rand(num_heads, num_rows, num_columns, generator=generator).softmax(dim=-1)


def attention_config(name: str) -> AttentionConfig:
    """Return the default config of a registered type with small sizes."""
    config = attention_config_types()[name]()
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    small = {key: min(each, LARGEST_SIZE) for key, each in values.items() if type(each) is int}
    return dataclasses.replace(config, **small)


def _variants() -> dict[str, AttentionConfig]:
    """Return configs of all registered types, and those with another value of one option.

    Booleans are flipped, optional values None, and every member of an enumeration is taken.
    """
    variants = {}
    for name in attention_config_types():
        config = variants[name] = attention_config(name)
        if hasattr(config, "window"):  # narrower than the sources
            variants[f"{name}-window=1"] = dataclasses.replace(config, window=1)
        if hasattr(config, "filter_width"):  # without a middle
            variants[f"{name}-filter_width=4"] = dataclasses.replace(config, filter_width=4)
        for field in dataclasses.fields(config):
            for other in _other_values(field.type, getattr(config, field.name)):
                with contextlib.suppress(ValueError):  # an option that the type refuses
                    changed = dataclasses.replace(config, **{field.name: other})
                    label = other.name if isinstance(other, Enum) else other
                    variants[f"{name}-{field.name}={label}"] = changed
    return variants


def _other_values(field_type: object, value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, Enum):
        return [each for each in type(value) if each is not value]
    return [None] if type(None) in get_args(field_type) and value is not None else []


VARIANTS = _variants()
VALUE_SIZE = 7


def attention_sizes(config: AttentionConfig) -> tuple[int, int]:
    """Return query and key size, which differ unless the type needs equal ones."""
    try:
        build_attention(config, query_size=6, key_size=10, value_size=VALUE_SIZE)
    except ValueError:
        return 6, 6
    return 6, 10


def tiny_attention(config: AttentionConfig, *, dtype: torch.dtype = torch.float64) -> Attention:
    """Build a module; query, key and value sizes differ unless the type needs equal ones."""
    torch.manual_seed(1)
    query_size, key_size = attention_sizes(config)
    attention = build_attention(
        config, query_size=query_size, key_size=key_size, value_size=VALUE_SIZE
    )
    return attention.to(dtype)


class DiagonalAttention(PositionalAttention):
    """Scores q k - (i - t)^2, with the sums q and k of the query and the key."""

    def score_at(self, positions: Tensor, query: Tensor, keys: Tensor) -> Tensor:
        distances = torch.arange(keys.shape[1], device=keys.device) - positions  # (B, T, S)
        products = query.sum(-1, keepdim=True) * keys.sum(-1).unsqueeze(1)
        return products - distances.square().to(products)


class Sources(NamedTuple):
    """Inputs of an attention module: B=3, T=4, S=5, lengths 5, 2 and 3."""

    query: Tensor  # (B, T, Q)
    keys: Tensor  # (B, S, K), random at padding too
    values: Tensor  # (B, S, V), random at padding too
    mask: Tensor  # (B, S)


def tiny_sources(config: AttentionConfig, *, dtype: torch.dtype = torch.float64) -> Sources:
    generator = torch.Generator().manual_seed(2)
    query_size, key_size = attention_sizes(config)
    shapes = (3, 4, query_size), (3, 5, key_size), (3, 5, VALUE_SIZE)
    query, keys, values = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes
    )
    return Sources(query, keys, values, torch.arange(5) < torch.tensor([[5], [2], [3]]))


def attend(attention: Attention, sources: Sources) -> tuple[Tensor, Tensor]:
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    context, weights = attention(sources.query, memory)
    return context, weights


RowScores = Callable[[list[float], list[list[float]], list[bool], list[list[float]]], list[float]]
"""The scores of a query and all keys, given the real positions and earlier queries' weights."""


def softmax_by_loop(scores: list[float]) -> list[float]:
    exponentials = [math.exp(one - max(scores)) for one in scores]
    return [one / sum(exponentials) for one in exponentials]


def entmax_by_bisection(scores: list[float], *, alpha: float) -> list[float]:
    """Compute max(0, (alpha - 1) z - tau)^(1 / (alpha - 1)); search tau until the sum is 1."""
    scaled = [(alpha - 1) * (one - max(scores)) for one in scores]

    def weights_at(tau: float) -> list[float]:
        return [max(0.0, one - tau) ** (1 / (alpha - 1)) for one in scaled]

    low, high = -1.0, 0.0  # the sum is at least 1, and 0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights_at(middle)) >= 1 else (low, middle)
    return weights_at(low)


BY_LOOP: dict[Normalizer, Callable[[list[float]], list[float]]] = {
    Normalizer.softmax: softmax_by_loop,
    Normalizer.sparsemax: functools.partial(entmax_by_bisection, alpha=2.0),
    Normalizer.entmax15: functools.partial(entmax_by_bisection, alpha=1.5),
}


def mix_by_loop(
    score_row: RowScores,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    normalizer: Normalizer = Normalizer.softmax,
) -> tuple[Tensor, Tensor]:
    """Compute context and weights (B, T, S) from the definition, one number at a time.

    No code of the modules is used; scores are computed from lists of Python floats. The mask is
    (B, T, S); a row without a real position gives zeros. A score of minus infinity stands for a
    position that the query does not look at.
    """
    context = torch.zeros(*query.shape[:2], values.shape[-1], dtype=torch.float64)
    weights = torch.zeros(*query.shape[:2], keys.shape[1], dtype=torch.float64)
    for row, step in itertools.product(range(query.shape[0]), range(query.shape[1])):
        seen = mask[row, step].tolist()
        real = [place for place, is_real in enumerate(seen) if is_real]
        past = weights[row, :step].tolist()
        scores = score_row(query[row, step].tolist(), keys[row].tolist(), seen, past)
        normalized = BY_LOOP[normalizer]([scores[place] for place in real]) if real else []
        for place, weight in zip(real, normalized, strict=True):
            weights[row, step, place] = weight
            context[row, step] += weights[row, step, place] * values[row, place]
    return context, weights


def sequence_attention(
    kind: type[SequenceModule],
    num_heads: int = 2,
    *,
    normalizer: Normalizer = Normalizer.softmax,
    dtype: torch.dtype = torch.float64,
) -> SequenceModule:
    """Build a module over whole sequences; the sizes of CrossAttention differ."""
    torch.manual_seed(1)
    config = MultiHeadConfig(size=8, num_heads=num_heads, normalizer=normalizer)
    across = kind is CrossAttention
    sizes = {"query_size": 4, "key_size": 6, "value_size": VALUE_SIZE} if across else {}
    return kind(config, **sizes).to(dtype)


def draw_sequences(
    kind: type[SequenceModule], *, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Draw queries, keys and values (B=3, T=4, S=5); for self-attention, which are one (S=5)."""
    generator = torch.Generator().manual_seed(2)
    shapes = [(3, 4, 4), (3, 5, 6), (3, 5, VALUE_SIZE)] if kind is CrossAttention else [(3, 5, 8)]
    drawn = [torch.randn(*one, generator=generator, dtype=torch.float64) for one in shapes]
    parts = [part.to(dtype).requires_grad_() for part in drawn]
    return parts if kind is CrossAttention else 3 * parts


_GAPS = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 1, 1, 1, 1]]).bool()
VALID = {
    "nothing": None,
    "lengths": torch.tensor([5, 2, 3]),
    "no_length": torch.tensor([0, 5, 0]),
    "step_lengths": torch.tensor([[1, 5, 2, 3, 4], [5, 4, 0, 1, 0], [2, 2, 2, 2, 2]]),
    "mask": _GAPS,
    "step_mask": _GAPS.unsqueeze(1) ^ torch.eye(5, dtype=torch.bool),
}
"""Lengths and masks for `Attention.prepare`, with B=3, T=5, S=5."""


def valid_and_mask(name: str, *, num_steps: int) -> tuple[Tensor | None, Tensor]:
    """Return an entry of VALID for some steps, and the mask (B, T, S) that it stands for."""
    valid = VALID[name]
    if valid is None:
        return None, torch.ones(3, num_steps, 5, dtype=torch.bool)
    valid = valid[:, :num_steps] if name.startswith("step") else valid
    mask = valid if valid.dtype == torch.bool else torch.arange(5) < valid.unsqueeze(-1)
    return valid, mask if mask.dim() == 3 else mask.unsqueeze(1).expand(3, num_steps, 5)
