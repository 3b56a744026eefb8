"""What a search asks of a model, be it one model or an ensemble."""

# B sentences, R rows, S source length, N heads, V vocabulary

from collections.abc import Callable
from typing import Protocol, TypeVar

from torch import Tensor

_Selected = TypeVar("_Selected")


class Selectable(Protocol):
    """What has an entry for each sentence or row."""

    def select(self: _Selected, rows: Tensor, /) -> _Selected:
        """Keep the given ones, in the given order."""


class SearchStep(Protocol):
    """What one step yields."""

    @property
    def logits(self) -> Tensor:
        """Return a logit for each token, (R, V)."""

    @property
    def state(self) -> Selectable:
        """Return what the next step starts from, of R rows."""

    @property
    def attention_weights(self) -> Tensor:
        """Return the attention of all heads, (R, N, S)."""


class StepDecoder(Protocol):
    """What predicts the next token of each row."""

    @property
    def step(self) -> Callable[..., SearchStep]:
        """Return the step, called with a state, the tokens before it (R,) and a memory.

        What state and memory are is between the model and its decoder; a search hands back what
        it got, selected. R is a multiple of B, and the rows of a sentence stand together.
        """


class SearchedModel(Protocol):
    """What reads sources and then predicts their translations token by token."""

    training: bool

    @property
    def decoder(self) -> StepDecoder: ...

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Selectable, Selectable]:
        """Return the memory and the first state of B sentences; ids and mask are (B, S)."""
