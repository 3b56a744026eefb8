"""Change the attention weights of a trained model, and see what the model loses by it."""

# B batch, K rows of a sentence, R all rows, S source length, T target length, N heads

import copy
import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from seq2seq.attention import Attention, AttentionState, Memory
from seq2seq.checkpoints.checkpoint import load_checkpoints
from seq2seq.data.tokenizers.interface import required_tags
from seq2seq.evaluation.metrics import ScoringRule, corpus_bleu, sentence_statistics
from seq2seq.inference.results import Translation
from seq2seq.inference.translator import Translator
from seq2seq.registry import Registry
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import choose_numerics


@dataclass(kw_only=True, slots=True)
class Intervention(ABC):
    """A change of attention weights; a type derives a dataclass and gives `name` a default."""

    name: str
    head: int | None = None
    """Head that is meant, from 0; only for interventions on one head."""

    @abstractmethod
    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        """Return other weights for a step.

        Args:
            weights: Those of the model, (B, N, K, S).
            source_mask: Real positions, (B, 1, 1, S).
            first: The weights of the first step, (B, N, K, S); zeros in the first step itself.
        """


_registry: Registry[Intervention, type[Intervention]] = Registry("intervention")
_Type = TypeVar("_Type", bound=type[Intervention])


def register_intervention(intervention: _Type) -> _Type:
    """Register an intervention under the default of its `name`; a class decorator."""
    _registry.add(intervention, intervention)
    return intervention


def intervention_types() -> dict[str, type[Intervention]]:
    """Return the registered interventions by name."""
    return _registry.config_types()


def find_intervention(text: str) -> Intervention:
    """Return an intervention by its name, with the head if it needs one.

    Raises:
        ValueError: The name is unknown, or the head is missing or of no use.

    Example:
        >>> find_intervention("drop_head:1")
        DropHead(name='drop_head', head=1)
    """
    name, colon, head = text.partition(":")
    if name not in (known := intervention_types()):
        raise ValueError(f"unknown intervention {name!r}; one of: {', '.join(known)}")
    if name.endswith("_head") != head.isdecimal() or (colon and not head):
        raise ValueError(
            f"intervention {text!r}: drop_head and only_head need the number of a head from 0, as "
            "in drop_head:1, and no other intervention takes one"
        )
    create = known[name]
    return create(head=int(head)) if head else create()  # type: ignore[call-arg]  # has a name


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
    """The weights at other positions: one random permutation for each source length."""

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
    """All weight on the position with the largest."""

    name: str = "strongest"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        strongest = torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1)
        return strongest * weights.any(-1, keepdim=True)


@register_intervention
@dataclass(kw_only=True, slots=True)
class WithoutEnd(Intervention):
    """No weight on `</s>`; that of the other positions is scaled to 1 again, unless it is 0."""

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
    """One head gives nothing to the context (Michel et al. 2019)."""

    name: str = "drop_head"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        heads = torch.arange(weights.shape[1], device=weights.device).view(-1, 1, 1)
        return weights * (heads != self.head)


@register_intervention
@dataclass(kw_only=True, slots=True)
class OnlyHead(Intervention):
    """All heads but one give nothing to the context (Michel et al. 2019)."""

    name: str = "only_head"

    def change(self, weights: Tensor, source_mask: Tensor, first: Tensor) -> Tensor:
        heads = torch.arange(weights.shape[1], device=weights.device).view(-1, 1, 1)
        return weights * (heads == self.head)


class ChangedAttention(Attention):
    """An attention module whose weights an intervention changes, at inference.

    The change replaces the function that turns scores into weights, so that it reaches every type;
    a type with a state reads the changed weights. The weights of the first step join the state.
    """

    def __init__(self, attention: Attention, intervention: Intervention) -> None:
        torch.nn.Module.__init__(self)
        self.attention, self.intervention = attention, intervention
        self.num_heads, self.context_size = attention.num_heads, attention.context_size
        if intervention.head is not None and intervention.head >= attention.num_heads:
            raise ValueError(
                f"intervention {intervention.name}:{intervention.head}: the model has "
                f"{attention.num_heads} heads, counted from 0"
            )

    def prepare(
        self, keys: Tensor, valid: Tensor | None = None, *, values: Tensor | None = None
    ) -> Memory:
        return self.attention.prepare(keys, valid, values=values)

    def start(self, memory: Memory) -> AttentionState:
        sources, length, _ = memory.keys.shape
        return memory.values.new_zeros(sources, self.num_heads, length), *self.attention.start(
            memory
        )

    def step(
        self, query: Tensor, memory: Memory, state: AttentionState
    ) -> tuple[Tensor, Tensor, AttentionState]:
        first, *own = state
        mask = memory.source_mask[:, None, None]  # (B, 1, 1, S)
        shape = len(mask), len(query) // max(len(mask), 1), *first.shape[1:]
        before = first.view(shape).transpose(1, 2)  # (B, N, K, S)
        calls = []

        def normalize(scores: Tensor, valid: Tensor) -> Tensor:
            weights: Tensor = self.attention.normalize(scores, valid)
            calls.append(weights)
            heads = weights if weights.dim() == 4 else weights.unsqueeze(1)
            return self.intervention.change(heads, mask, before.to(weights)).view_as(weights)

        # A copy, which shares the parameters, since several threads may be here.
        changed = copy.copy(self.attention)
        changed.normalize = normalize
        context, weights, after = changed.step(query, memory, tuple(own))
        if self.num_heads and not calls:
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


class Intervened(NamedTuple):
    """What a model does with other attention weights, and what it loses by them."""

    translations: list[Translation]
    """Of the sources, by the model's own search."""
    references: list[Translation]
    """The references as known translations, with their log-probabilities and the weights."""
    bleu: float
    bleu_lost: float
    """BLEU of the unchanged model minus this one."""
    perplexity: float
    """Of the references."""
    perplexity_factor: float
    """This perplexity divided by that of the unchanged model."""
    changed_words: float
    """Share of the words that differ between the translations and those of the unchanged model."""


def intervene(
    path: Path,
    intervention: Intervention,
    *,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    rule: ScoringRule,
    device: Device | str = Device.auto,
) -> Intervened:
    """Translate and score with changed attention weights; nothing is trained.

    Args:
        path: A checkpoint or a run directory.
        intervention: The change.
        sources: Source lines.
        translations: Those of the unchanged model.
        references: Reference lines.
        rule: How BLEU is computed.
        device: Device to run on.

    Raises:
        ValueError: The model has no such head.
    """
    unchanged = Translator.load(path, device=device)
    [checkpoint] = load_checkpoints([path])
    model = checkpoint.build_model()
    attention = ChangedAttention(model.attention, intervention)
    model.attention = model.decoder.recurrence.attention = attention
    changed = Translator(
        model,
        tokenizers=checkpoint.tokenizers,
        numerics=choose_numerics(Device(device), Precision.fp32),
        decoding=checkpoint.config.decoding,
        tags=required_tags(checkpoint.config.data),
    )
    found = changed(sources)
    pairs = list(zip(sources, references, strict=True))
    scored = list(changed.score(pairs))
    lines = [each.text for each in found]
    bleu, before = (
        float(corpus_bleu(sentence_statistics(each, references, rule=rule).sum(axis=0)))
        for each in (lines, translations)
    )
    perplexity, known = map(_perplexity, (scored, list(unchanged.score(pairs))))
    return Intervened(
        found,
        scored,
        bleu,
        before - bleu,
        perplexity,
        perplexity / known,
        changed_words(translations, lines),
    )


def changed_words(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the share of words that two versions of a text do not have in common, in order.

    Example:
        >>> changed_words(["a dog runs", "a"], ["a dog sits", "a"])
        0.25
    """
    common = total = 0
    for one, other in zip(before, after, strict=True):
        words = one.split(), other.split()
        blocks = difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
        common += 2 * sum(block.size for block in blocks)
        total += len(words[0]) + len(words[1])
    return 1 - common / total if total else 0.0


def _perplexity(scored: Sequence[Translation]) -> float:
    tokens = sum(len(each.best.tokens) for each in scored)
    return math.exp(-sum(each.best.log_probability for each in scored) / max(tokens, 1))
