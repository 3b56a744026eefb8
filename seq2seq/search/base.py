"""What every search returns and is called by: hypotheses, and a registry of searches."""

# B batch, R rows (hypotheses), S source length, T target length, N heads, V vocabulary

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from seq2seq.search.config import DecodingConfig
from seq2seq.search.constraints import Constraints, build_constraints
from seq2seq.search.protocols import SearchedModel
from seq2seq.special_tokens import BOS, PAD


class Hypothesis(NamedTuple):
    """One translation that a search found."""

    ids: list[int]
    """its tokens, without BOS and EOS"""
    score: float
    """what hypotheses are ranked by: the log-probability, normalised as configured"""
    log_probability: float
    """of all tokens and, when finished, EOS"""
    finished: bool
    """it ended with EOS; else it ran into the length limit"""
    attention_weights: Tensor
    """attention (N, T, S) on the CPU: T tokens and, when finished, EOS; S tokens and EOS"""
    token_log_probabilities: Sequence[float] = ()
    """of each token and, when finished, EOS; their sum is the log-probability"""


Hypotheses = list[list[Hypothesis]]
"""for each sentence, the best first"""

_ConfigType = TypeVar("_ConfigType", bound=DecodingConfig)
_Search = Callable[[SearchedModel, Tensor, Tensor, _ConfigType, Constraints], Hypotheses]

_registry: dict[type[DecodingConfig], Callable[..., Hypotheses]] = {}
_names: dict[str, type[DecodingConfig]] = {}


def register_search(
    config_type: type[_ConfigType],
) -> Callable[[_Search[_ConfigType]], _Search[_ConfigType]]:
    """Register the decorated search under its config's type and the default of its `name`.

    Raises:
        ValueError: The config has no default name, or the name or the config is registered already.
    """
    name = next(field.default for field in fields(config_type) if field.name == "name")
    if not isinstance(name, str):
        raise ValueError(f"{config_type.__name__} needs a name: `name: str = ...`")
    if name in _names or config_type in _registry:
        raise ValueError(f"search {name!r} or its config {config_type.__name__} is taken")

    def register(function: _Search[_ConfigType]) -> _Search[_ConfigType]:
        _names[name] = config_type
        _registry[config_type] = function
        return function

    return register


def decoding_config_types() -> dict[str, type[DecodingConfig]]:
    """Return the config type of every registered name."""
    return dict(_names)


@torch.inference_mode()
def search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: DecodingConfig,
    *,
    prefixes: Sequence[Sequence[int]] = (),
    banned: Sequence[Sequence[int]] = (),
) -> Hypotheses:
    """Translate a batch by the search that is registered for the config's type.

    What a sentence gets depends neither on its neighbours nor on their padding.

    Args:
        model: in evaluation mode, on the device of the ids.
        source_ids: (B, S), each row ending with EOS and padded at its end.
        source_mask: (B, S) bool, True = real token.
        config: a search's config.
        prefixes: for each sentence the tokens that its hypotheses begin with, or nothing; one
            that ends with EOS is the whole hypothesis. Forced tokens heed no other constraint.
            Without any prefixes all sentences are free.
        banned: sequences of tokens that no hypothesis holds, for all sentences: `[UNK]` a
            token, `[BOS, 7, 8]` a beginning, `[8, EOS]` an end.

    Returns:
        For each sentence its hypotheses, the best first.

    Raises:
        ValueError: the model gives probabilities that are not numbers, or it cannot be searched
            as the config says, or a prefix or a banned sequence makes no sense.
    """
    assert not model.training, "dropout would draw a different translation each time"
    if source_ids.shape[0] == 0:
        return []
    constraints = build_constraints(config, source_mask, prefixes=prefixes, banned=banned)
    found = _registry[type(config)](model, source_ids, source_mask, config, constraints)
    constraints.report()
    return found


def allowed_log_probabilities(logits: Tensor) -> Tensor:
    """Return log-probabilities (R, V) with those of tokens that no translation holds at -inf.

    They are those of the whole vocabulary, not renormalised, so that a hypothesis is as probable
    as the model holds it to be.
    """
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    # A slice of just these two, for a list of places is moved and looked up at every step.
    log_probabilities[:, PAD : BOS + 1 : BOS - PAD].fill_(-torch.inf)
    return log_probabilities


def length_limits(source_mask: Tensor, config: DecodingConfig) -> list[int]:
    """Return how many tokens the translation of each sentence may have, EOS included."""
    return [config.longest(length) for length in source_mask.sum(dim=1).tolist()]
