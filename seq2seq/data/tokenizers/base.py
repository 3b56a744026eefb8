"""Contract of all tokenizers: protocol and registry."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

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


class TokenizerPair(NamedTuple):
    """Tokenizers of both languages; a joint vocabulary makes them the same object."""

    source: Tokenizer
    target: Tokenizer


_ConfigType = TypeVar("_ConfigType", bound=TokenizerConfig)
_Train = Callable[[_ConfigType, Corpus], TokenizerPair]
_Restore = Callable[[TokenizerState], Tokenizer]

_trainers: dict[type[TokenizerConfig], Callable[..., TokenizerPair]] = {}
_restorers: dict[str, _Restore] = {}


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
    if config_type in _trainers or kind in _restorers:
        raise ValueError(f"tokenizer kind {kind!r} or its {config_type.__name__} is taken")

    def register(train: _Train[_ConfigType]) -> _Train[_ConfigType]:
        _trainers[config_type] = train
        _restorers[kind] = restore
        return train

    return register


def train_tokenizers(config: TokenizerConfig, corpus: Corpus) -> TokenizerPair:
    """Learn the vocabularies of both languages from a corpus.

    Raises:
        ValueError: The corpus has no text, or the values of the configuration do not suit it.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data import load_corpora
        >>> config = load_config("tokenizer=characters", "data.num_train=100")
        >>> source, target = train_tokenizers(config.tokenizer, load_corpora(config.data).train)
        >>> target.tokens(target.encode(["dog"])[0])
        ['d', 'o', 'g']
    """
    if type(config) not in _trainers:
        raise TypeError(f"no tokenizer is registered for {type(config).__name__}")
    return _trainers[type(config)](config, corpus)


def tokenizers_state(tokenizers: TokenizerPair) -> dict[str, TokenizerState]:
    """Return tensors and plain values that `torch.load(weights_only=True)` accepts."""
    if tokenizers.source is tokenizers.target:
        return {"joint": tokenizers.source.state()}
    return {"source": tokenizers.source.state(), "target": tokenizers.target.state()}


def tokenizers_from_state(state: dict[str, TokenizerState]) -> TokenizerPair:
    """Restore tokenizers from the result of `tokenizers_state`."""
    if "joint" in state:
        tokenizer = _restore(state["joint"])
        return TokenizerPair(tokenizer, tokenizer)
    return TokenizerPair(_restore(state["source"]), _restore(state["target"]))


def _restore(state: TokenizerState) -> Tokenizer:
    kind = state["kind"]
    if not isinstance(kind, str) or kind not in _restorers:
        known = ", ".join(sorted(_restorers))
        raise ValueError(f"unknown tokenizer kind {kind!r}; one of: {known}")
    return _restorers[kind](state)


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
