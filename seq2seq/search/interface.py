"""The function `search`, the models that it takes, the hypotheses that it returns."""

# B batch, R rows (hypotheses), S source length, T target length, N heads, V vocabulary

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from seq2seq.registry import Registry
from seq2seq.search.config import DecodingConfig
from seq2seq.search.constraints import Constraints, build_constraints

_Selected = TypeVar("_Selected")


class Selectable(Protocol):
    """Something with an entry for each sentence or row: a memory or a decoder state."""

    def select(self: _Selected, rows: Tensor, /) -> _Selected:
        """Return the entries of the given rows, in the given order."""


class SearchStep(Protocol):
    """The result of one decoder step."""

    @property
    def logits(self) -> Tensor:
        """Return the logits of the next token, (R, V)."""

    @property
    def state(self) -> Selectable:
        """Return the state of R rows after this step."""

    @property
    def attention_weights(self) -> Tensor:
        """Return the attention weights, (R, N, S)."""


class StepDecoder(Protocol):
    """A decoder that predicts the next token of each row."""

    @property
    def step(self) -> Callable[..., SearchStep]:
        """Return the step function: `step(state, previous_ids, memory)` with ids (R,).

        A search passes back the state and the memory that it received, after `select`, and knows
        nothing else of them. R is a multiple of B; the rows of a sentence are adjacent.
        """


class SearchedModel(Protocol):
    """A model that encodes sources and predicts their translations token by token."""

    training: bool

    @property
    def decoder(self) -> StepDecoder: ...

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Selectable, Selectable]:
        """Return the memory and the first state of B sentences; ids and mask are (B, S)."""


class Hypothesis(NamedTuple):
    """A translation, found by a search or known."""

    ids: list[int]
    """Token ids without BOS and EOS."""
    score: float
    """Value that hypotheses are ranked by: the log-probability, in a beam divided by the length
    penalty and added to the coverage penalty."""
    log_probability: float
    """Natural logarithm of the probability of all tokens and, if finished, EOS."""
    finished: bool
    """True if the hypothesis ended with EOS, False if it reached the length limit."""
    attention_weights: Tensor
    """(N, T, S) on the CPU; T and S count EOS, except T of an unfinished hypothesis."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each token and, if finished, EOS."""


Hypotheses = list[list[Hypothesis]]
"""Hypotheses of each sentence, best first."""

_ConfigType = TypeVar("_ConfigType", bound=DecodingConfig)
_Search = Callable[[SearchedModel, Tensor, Tensor, _ConfigType, Constraints], Hypotheses]

_registry: Registry[DecodingConfig, Callable[..., Hypotheses]] = Registry("search")


def register_search(
    config_type: type[_ConfigType],
) -> Callable[[_Search[_ConfigType]], _Search[_ConfigType]]:
    """Register the decorated search for a type of config and the default of its field `name`.

    Raises:
        ValueError: The config has no default name, or the name or the config is taken.
    """
    _registry.check(config_type)

    def register(function: _Search[_ConfigType]) -> _Search[_ConfigType]:
        _registry.add(config_type, function)
        return function

    return register


def decoding_config_types() -> dict[str, type[DecodingConfig]]:
    """Return the config type of every registered name.

    Example:
        >>> sorted(decoding_config_types())
        ['beam', 'greedy', 'sampling']
    """
    return _registry.config_types()


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
    """Translate a batch with the search that is registered for the type of `config`.

    On a CPU in fp32 and int8 the translation of a sentence depends neither on the other sentences
    of the batch nor on padding; scores may differ in their last digits.

    Args:
        model: A model in evaluation mode, on the device of `source_ids`.
        source_ids: (B, S); each row ends with EOS and is padded on the right.
        source_mask: (B, S) bool, True = real token.
        config: Configuration of the search, such as `BeamConfig`.
        prefixes: Token ids that the hypotheses of each sentence begin with, or an empty sequence
            for each free sentence; no prefixes at all leave all sentences free. A prefix that ends
            with EOS is the whole hypothesis. Other constraints do not apply to prefixes.
        banned: Token sequences that no hypothesis may contain: `[UNK]` bans a token, `[BOS, 7, 8]`
            a beginning, `[8, EOS]` an ending.

    Returns:
        Hypotheses of each sentence, best first.

    Raises:
        ValueError: The search is not registered; a probability is NaN; every token of a hypothesis
            is banned or impossible; a coverage penalty meets a model without attention; a prefix or
            a banned sequence is invalid.

    Example:
        >>> from seq2seq import GreedyConfig, build_model, load_config
        >>> config = load_config("attention=dot")
        >>> model = build_model(config, source_vocabulary_size=9, target_vocabulary_size=9).eval()
        >>> ids = torch.tensor([[5, 6, 7, 3]])
        >>> [[best]] = search(model, ids, ids > 0, GreedyConfig(), prefixes=[[4, 3]])
        >>> best.ids, best.finished, best.attention_weights.shape
        ([4], True, torch.Size([1, 2, 4]))
    """
    assert not model.training, "dropout would change the translation from call to call"
    if source_ids.shape[0] == 0:
        return []
    constraints = build_constraints(config, source_mask, prefixes=prefixes, banned=banned)
    found = _registry.find(config)(model, source_ids, source_mask, config, constraints)
    constraints.report()
    return found


def length_limits(source_mask: Tensor, config: DecodingConfig) -> list[int]:
    """Return the largest number of tokens of each translation, including EOS."""
    return [config.longest(length) for length in source_mask.sum(dim=1).tolist()]
