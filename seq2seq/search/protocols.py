"""The interface between a search and a model or an ensemble."""

# B sentences, R rows, S source length, N heads, V vocabulary

from collections.abc import Callable
from typing import Protocol, TypeVar

from torch import Tensor

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
