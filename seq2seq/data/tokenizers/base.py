"""What a tokenizer is: its configurations, its protocol, and how one is trained and restored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import singledispatch
from typing import NamedTuple, Protocol

from torch import Tensor

from seq2seq.checks import check_positive
from seq2seq.data.corpus import Corpus
from seq2seq.special_tokens import SPECIAL_TOKENS

UNKNOWN_SURFACE = "\u2047"
"""what an unknown token shows as in text"""
SPACE_LABEL = "\u2581"
"""how a space shows in the label of a token"""

TokenizerState = dict[str, str | bool | list[str] | Tensor]


class SentencePieceModel(Enum):
    """How SentencePiece chooses its tokens."""

    unigram = "unigram"
    bpe = "bpe"


@dataclass(kw_only=True, slots=True)
class TokenizerConfig:
    """What every tokenizer has; `name` says which kind it is."""

    name: str
    vocabulary_size: int
    """most tokens a language, with the special ones"""

    def __post_init__(self) -> None:
        if self.vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"tokenizer.vocabulary_size={self.vocabulary_size} must be more than "
                f"{len(SPECIAL_TOKENS)}, the number of special tokens"
            )


@dataclass(kw_only=True, slots=True)
class SentencePieceConfig(TokenizerConfig):
    """Sub-words that give back the text as it was."""

    model_type: SentencePieceModel
    joint: bool
    """one vocabulary for both languages"""
    character_coverage: float
    """share of the characters of the text that get a token of their own"""
    max_training_lines: int
    """a random sample of so many lines is learnt from where the corpus has more"""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "max_training_lines")
        if not 0 < self.character_coverage <= 1:
            raise ValueError(
                f"tokenizer.character_coverage={self.character_coverage} must lie in (0, 1]"
            )


@dataclass(kw_only=True, slots=True)
class WordsConfig(TokenizerConfig):
    """Words as torchtext's `get_tokenizer` cuts them."""

    source_tokenizer: str
    target_tokenizer: str
    source_language: str
    target_language: str
    min_frequency: int
    """rarer words are unknown"""
    lowercase: bool

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "min_frequency")


@dataclass(kw_only=True, slots=True)
class CharactersConfig(TokenizerConfig):
    """Single characters."""

    min_frequency: int
    """rarer characters are unknown"""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "min_frequency")


class Tokenizer(Protocol):
    """Text of one language to token ids and back; PAD, UNK, BOS and EOS are ids of each."""

    def __len__(self) -> int: ...

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return detokenised text; PAD, BOS and EOS leave no trace in it."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id."""

    def words(self, text: str, ids: Sequence[int]) -> list[int]:
        """Return for each id which word of `text.split()` it belongs to.

        Args:
            text: what was encoded to `ids`, or what they decode to.
            ids: without BOS and EOS.
        """

    def state(self) -> TokenizerState:
        """Return all that `restore` needs, as tensors and plain types, with its "kind"."""


class TokenizerPair(NamedTuple):
    """The tokenizers of both languages; twice the same object when they share one."""

    source: Tokenizer
    target: Tokenizer


@singledispatch
def train_tokenizers(config: TokenizerConfig, corpus: Corpus) -> TokenizerPair:
    """Learn the vocabularies from the corpus; each type of configuration registers its own."""
    raise TypeError(f"no tokenizer is registered for the configuration {type(config).__name__}")


Restore = Callable[[TokenizerState], Tokenizer]
_restorers: dict[str, Restore] = {}


def register_tokenizer(kind: str) -> Callable[[Restore], Restore]:
    """Make the decorated function the one that restores states of this kind."""

    def register(restore: Restore) -> Restore:
        assert kind not in _restorers, f"tokenizer kind {kind} is registered twice"
        _restorers[kind] = restore
        return restore

    return register


def tokenizers_state(tokenizers: TokenizerPair) -> dict[str, TokenizerState]:
    """Return what `tokenizers_from_state` needs, fit for `torch.load(weights_only=True)`."""
    if tokenizers.source is tokenizers.target:
        return {"joint": tokenizers.source.state()}
    return {"source": tokenizers.source.state(), "target": tokenizers.target.state()}


def tokenizers_from_state(state: dict[str, TokenizerState]) -> TokenizerPair:
    """Return the tokenizers whose state this is."""
    if "joint" in state:
        tokenizer = _restore(state["joint"])
        return TokenizerPair(tokenizer, tokenizer)
    return TokenizerPair(_restore(state["source"]), _restore(state["target"]))


def word_indices(text: str, surfaces: Sequence[str | None]) -> list[int]:
    """Return for each token the index of the word of `text.split()` that it begins in.

    Args:
        text: what the tokens make up, with any whitespace.
        surfaces: the characters of each token; None where they are unknown. A token without
            visible characters, or with some that the text lacks, belongs to the next word.
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
            # It stands for one character or more; the next known token tells how many.
            position += 1
        elif found >= 0:
            position = found + len(visible)
    return indices


def _restore(state: TokenizerState) -> Tokenizer:
    kind = state["kind"]
    if not isinstance(kind, str) or kind not in _restorers:
        known = ", ".join(sorted(_restorers))
        raise ValueError(f"unknown tokenizer kind {kind!r}; one of: {known}")
    return _restorers[kind](state)
