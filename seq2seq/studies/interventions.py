"""Changes of the attention weights of a trained model."""

# B batch, K rows of a sentence, R all rows, S source length, T target length, N heads

import copy
import difflib
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from seq2seq.attention.base import Attention, AttentionState, Memory
from seq2seq.registry import Registry

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Intervention(ABC):
    """A change of attention weights.

    Each kind is a dataclass that derives from this class and gives `name` a default.
    """

    needs: ClassVar[str] = ""
    """Description of `argument` for messages; empty if the kind takes no argument."""
    name: str
    argument: str = ""
    """Text after the name and a colon."""

    def __post_init__(self) -> None:
        if bool(self.argument) != bool(self.needs):
            needs = f"needs {self.needs}" if self.needs else "takes no argument"
            raise ValueError(f"intervention {str(self)!r} {needs}")

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    def check(self, num_heads: int) -> None:
        """Raise ValueError if the intervention does not suit a model with this number of heads."""
        if num_heads < self.least_heads:
            lacking = f"such head; number of heads: {num_heads}" if num_heads else "attention"
            raise ValueError(f"intervention {self}: the model has no {lacking}")

    @property
    def least_heads(self) -> int:
        """Return the smallest number of heads of a model that the intervention suits."""
        return 1

    @abstractmethod
    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        """Return the changed weights of a step.

        Args:
            weights: Weights of the model, (B, N, K, S).
            source_mask: Real positions, (B, 1, 1, S).
            first: Weights of the first step, which are zeros in the first step itself,
                (B, N, K, S).
        """


INTERVENTIONS = Registry[type[Intervention]]("intervention")
"""The interventions by name."""
_Type = TypeVar("_Type", bound=type[Intervention])


def register_intervention(intervention: _Type) -> _Type:
    """Register an intervention under the default of its `name`; a class decorator."""
    return INTERVENTIONS.register(intervention)(intervention)


def find_intervention(text: str) -> Intervention:
    """Return the intervention that a text describes: `NAME`, or `NAME:ARGUMENT`.

    Raises:
        ValueError: The name is unknown, or the argument is missing or not allowed.

    Example:
        >>> find_intervention("drop_head:1")
        DropHead(name='drop_head', argument='1')
    """
    name, _, argument = text.partition(":")
    return INTERVENTIONS.choose(name)(argument=argument)  # type: ignore[call-arg]  # has a name


@register_intervention
@dataclass(kw_only=True, slots=True)
class Uniform(Intervention):
    """Equal weights on all source tokens."""

    name: str = "uniform"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        real = source_mask.to(weights.dtype)
        return (real / real.sum(-1, keepdim=True).clamp(min=1)).expand_as(weights)


@register_intervention
@dataclass(kw_only=True, slots=True)
class Permuted(Intervention):
    """The weights in another order: one random permutation for each source length."""

    name: str = "permuted"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        order = torch.arange(weights.shape[-1]).repeat(len(weights), 1)
        for row, length in enumerate(source_mask.sum(-1).flatten().tolist()):
            order[row, :length] = torch.randperm(
                length, generator=torch.Generator().manual_seed(length)
            )
        order = order.to(weights.device)[:, None, None]
        return weights.gather(-1, order.expand_as(weights))


@register_intervention
@dataclass(kw_only=True, slots=True)
class Strongest(Intervention):
    """All weight on the position with the largest weight."""

    name: str = "strongest"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        strongest = torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1)
        return strongest * weights.any(-1, keepdim=True)


@register_intervention
@dataclass(kw_only=True, slots=True)
class WithoutEnd(Intervention):
    """No weight on `</s>`; all other weights are scaled to sum to 1, unless all are 0."""

    name: str = "without_end"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        is_end = source_mask & (source_mask.cumsum(-1) == source_mask.sum(-1, keepdim=True))
        others = weights.masked_fill(is_end, 0)
        total = others.sum(-1, keepdim=True)
        return torch.where(total > 0, others / total, weights)


@register_intervention
@dataclass(kw_only=True, slots=True)
class Frozen(Intervention):
    """The weights of the first step in all steps."""

    name: str = "frozen"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        return torch.where(first.any(-1, keepdim=True), first, weights)


@register_intervention
@dataclass(kw_only=True, slots=True)
class DropHead(Intervention):
    """No weights in one head, which then adds nothing to the context (Michel et al. 2019)."""

    needs: ClassVar[str] = "the number of a head, counted from 1, as in drop_head:1"
    name: str = "drop_head"

    def __post_init__(self) -> None:
        number = int(self.argument) if self.argument.isdecimal() else 0
        self.argument = str(number or "")  # 02 becomes 2
        Intervention.__post_init__(self)

    @property
    def least_heads(self) -> int:
        return int(self.argument)

    def check(self, num_heads: int) -> None:
        Intervention.check(self, num_heads)
        if num_heads == 1:
            logger.warning("%s removes the whole context: the model has one head", self)

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        heads = torch.arange(1, weights.shape[1] + 1, device=weights.device)
        return weights * (heads != int(self.argument)).view(-1, 1, 1)


class ChangedAttention(Attention):
    """An attention module whose weights an intervention changes at inference.

    The module replaces the function that turns scores into weights, which works for every type. A
    type with a state reads the changed weights. The state also stores the weights of the first
    step.
    """

    def __init__(self, attention: Attention, intervention: Intervention) -> None:
        torch.nn.Module.__init__(self)
        self.attention, self.intervention = attention, intervention
        self.num_heads, self.context_size = attention.num_heads, attention.context_size
        intervention.check(self.num_heads)

    def prepare(
        self, keys: Tensor, valid: Tensor | None = None, *, values: Tensor | None = None
    ) -> Memory:
        return self.attention.prepare(keys, valid, values=values)

    def start(self, memory: Memory) -> AttentionState:
        sources, length, _ = memory.keys.shape
        first = memory.values.new_zeros(sources, self.num_heads, length)
        return first, *self.attention.start(memory)

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        first, *own = state
        mask = memory.source_mask[:, None, None]  # (B, 1, 1, S)
        shape = len(mask), len(query) // max(len(mask), 1)  # B, K
        of_beam = first.view(*shape, *first.shape[1:]).transpose(1, 2)  # (B, N, K, S)
        calls = []

        def normalize(scores: Tensor, valid: Tensor) -> Tensor:
            weights: Tensor = self.attention.normalize(scores, valid)
            calls.append(weights)
            heads = weights if weights.dim() == 4 else weights.unsqueeze(1)
            return self.intervention.change(heads, mask, of_beam.to(weights)).view_as(weights)

        # A copy (with the same parameters), because several threads may call this method at once.
        changed = copy.copy(self.attention)
        changed.normalize = normalize
        context, weights, after = changed.step(query, memory, tuple(own))
        if not calls:
            raise ValueError(
                f"{type(self.attention).__name__} does not compute its weights by "
                "`self.normalize`, so no intervention can change them"
            )
        first = torch.where(first.any(-1, keepdim=True), first, weights.to(first))
        return context, weights, (first, *after)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with successive queries (B, T, Q), as T calls of `step` do."""
        state, contexts, weights = self.start(memory), [], []
        for step in query.unbind(1):
            context, step_weights, state = self.step(step, memory, state)
            contexts.append(context)
            weights.append(step_weights)
        return torch.stack(contexts, dim=1), torch.stack(weights, dim=2)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.attention.score(query, keys)


def changed_words(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the share of words that differ between two versions of a text, compared in order.

    Example:
        >>> changed_words(["a dog runs", "a"], ["a dog sits", "a"])
        0.25
    """
    changed, words = map(sum, zip(*map(count_changed_words, before, after), strict=True))
    return changed / words if words else 0.0


def count_changed_words(before: str, after: str) -> tuple[int, int]:
    """Return the number of words that differ between two versions of a line, and the number of
    all words in both versions."""
    words = before.split(), after.split()
    blocks = difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
    total = len(words[0]) + len(words[1])
    return total - 2 * sum(block.size for block in blocks), total
