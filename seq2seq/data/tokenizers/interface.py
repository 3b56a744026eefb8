"""Contract of all tokenizers, and the registry of their kinds."""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.config import TokenizerConfig

UNKNOWN_SURFACE = "\u2047"
"""Text of an unknown token."""
SPACE_LABEL = "\u2581"
"""Label of a space."""

TokenizerState = dict[str, str | bool | list[str] | Tensor]


class Tokenizer(Protocol):
    """Conversion between text of one language and token ids.

    Every vocabulary begins with PAD, UNK, BOS and EOS.
    """

    @property
    def folds_case(self) -> bool:
        """Whether text becomes lower case, so that translations have no capitals."""

    def __len__(self) -> int:
        """Return the size of the vocabulary."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return detokenised text, without PAD, BOS and EOS."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id."""

    def words(self, text: str, ids: Sequence[int]) -> list[int]:
        """Return the index in `text.split()` of the word that each id belongs to.

        Args:
            text: Text that was encoded to `ids`, or that they decode to.
            ids: Token ids without BOS and EOS.
        """

    def state(self) -> TokenizerState:
        """Return tensors and plain values that restore the tokenizer; "kind" names its kind."""


@runtime_checkable
class SamplingTokenizer(Tokenizer, Protocol):
    """A tokenizer that can draw one of several segmentations of a text."""

    def sample(
        self, lines: Sequence[str], *, seed: int, alpha: float, nbest: int
    ) -> list[list[int]]:
        """Return the ids of a random segmentation of each line, without BOS and EOS.

        Args:
            lines: Text.
            seed: Seed in [0, 2**32); the result depends on it and on the lines alone.
            alpha: As `SentencePieceConfig.sampling_alpha`.
            nbest: As `SentencePieceConfig.sampling_nbest`.
        """


class TokenizerPair(NamedTuple):
    """Tokenizers of both languages; a joint vocabulary makes them the same object."""

    source: Tokenizer
    target: Tokenizer


def word_indices(text: str, surfaces: Sequence[str | None]) -> list[int]:
    """Return for each token the index in `text.split()` of the word in which it begins.

    Args:
        text: Text of the tokens, with any whitespace.
        surfaces: Characters of each token; None if they are unknown. A token without visible
            characters, or with characters that the text lacks, belongs to the next word.

    Example:
        >>> word_indices("ein Hund.", ["ein", " Hu", "nd", "."])
        [0, 1, 1, 1]
    """
    words = text.split()
    characters = "".join(words)
    owners = [index for index, word in enumerate(words) for _ in word] or [0]
    indices = []
    position = 0
    for surface in surfaces:
        visible = None if surface is None else "".join(surface.split())
        found = characters.find(visible, position) if visible else -1
        start = position if found < 0 else found
        indices.append(owners[min(start, len(owners) - 1)])
        if visible is None:
            # An unknown token covers one character or more; the next known one resynchronises.
            position += 1
        elif found >= 0:
            position = found + len(visible)
    return indices


_ConfigType = TypeVar("_ConfigType", bound=TokenizerConfig)
_Train = Callable[[_ConfigType, Corpus], TokenizerPair]
_Restore = Callable[[TokenizerState], Tokenizer]

RESTORERS: dict[str, _Restore] = {}
"""Functions that restore a tokenizer, by the "kind" of its state."""


@singledispatch
def train_plain(config: TokenizerConfig, corpus: Corpus) -> TokenizerPair:
    """Train tokenizers that have no symbols."""
    raise TypeError(f"no tokenizer is registered for {type(config).__name__}")


def register_tokenizer(
    config_type: type[_ConfigType], *, kind: str, restore: _Restore
) -> Callable[[_Train[_ConfigType]], _Train[_ConfigType]]:
    """Register the decorated function, which trains the tokenizers of a config type.

    Args:
        config_type: Type of the configuration.
        kind: Value of "kind" in the state of these tokenizers.
        restore: Function that turns such a state into a tokenizer again.

    Raises:
        ValueError: The config type or the kind is registered already.
    """
    if config_type in train_plain.registry or kind in RESTORERS:
        raise ValueError(f"tokenizer kind {kind!r} or its {config_type.__name__} is taken")

    def register(train: _Train[_ConfigType]) -> _Train[_ConfigType]:
        train_plain.register(config_type)(train)
        RESTORERS[kind] = restore
        return train

    return register
