"""The interface of tokenizers, and the registry of their kinds."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from seq2seq.data.corpus import Corpus
from seq2seq.registry import Registry
from seq2seq.text.rules import NO_TEXT, ModelText, TextRules, lowered, split_words

TokenizerState = dict[str, str | bool | list[str] | dict[str, str] | Tensor]


class Tokenizer(Protocol):
    """Conversion between text of one language and token ids.

    Every vocabulary begins with PAD, UNK, BOS and EOS.
    """

    @property
    def rules(self) -> TextRules:
        """The changes to a text before and after the model."""

    @property
    def folds_case(self) -> bool:
        """Whether text becomes lower case, so that translations have no capitals."""

    def __len__(self) -> int:
        """Return the size of the vocabulary."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without BOS and EOS.

        The rules normalize the lines, but only `rules.prepare` and `rules.mask` put symbols into
        them.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return detokenized text, without PAD, BOS and EOS."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id."""

    def words(self, text: str, ids: Sequence[int], source: ModelText = NO_TEXT) -> list[int]:
        """Return the index in `split_words(text)` of the word that each id belongs to.

        Args:
            text: Text of the user: the text that was encoded, or the text that `ids` decode to.
            ids: Token ids without BOS and EOS.
            source: The source of the text, or the text itself, as the model reads it; `ids` have
                its symbols.
        """

    def state(self) -> TokenizerState:
        """Return tensors and plain values that restore the tokenizer; "kind" names its kind."""


@runtime_checkable
class SamplingTokenizer(Tokenizer, Protocol):
    """A tokenizer that can draw one of several segmentations of a text."""

    def sample(self, lines: Sequence[str], *, seed: int, alpha: float) -> list[list[int]]:
        """Return the ids of a random segmentation of each line, without BOS and EOS.

        Args:
            lines: Text.
            seed: Seed in [0, 2**32); equal arguments give equal results.
            alpha: As `SentencePieceConfig.sampling_alpha`.
        """


class TokenizerPair(NamedTuple):
    """Tokenizers of both languages; a joint vocabulary makes them the same object."""

    source: Tokenizer
    target: Tokenizer


def word_indices(text: str, surfaces: Sequence[str | None]) -> list[int]:
    """Return for each token the index in `split_words(text)` of the word in which it begins.

    A text in capitals may have tokens in ordinary case.

    Args:
        text: Text of the tokens, with any whitespace.
        surfaces: Characters of each token; None if they are unknown. A token without visible
            characters, or with characters that the text lacks, belongs to the next word.

    Example:
        >>> word_indices("ein Hund.", ["ein", " Hu", "nd", "."])
        [0, 1, 1, 1]
        >>> word_indices("EIN HUND.", ["Ein", " hu", "nd", "."])
        [0, 1, 1, 1]
    """
    words = ["".join(word.split()) for word in split_words(text)]
    characters = lowered("".join(words))
    owners = [index for index, word in enumerate(words) for _ in word] or [0]
    indices = []
    position = 0
    for surface in surfaces:
        visible = None if surface is None else lowered("".join(surface.split()))
        found = characters.find(visible, position) if visible else -1
        start = position if found < 0 else found
        indices.append(owners[min(start, len(owners) - 1)])
        if visible is None:
            # An unknown token covers at least one character; the next known token finds the
            # position again.
            position += 1
        elif found >= 0:
            position = found + len(visible)
    return indices


class TokenizerType(Protocol):
    """A class of tokenizers that can be trained, and restored from a state."""

    kind: str
    """The "kind" in the state of its tokenizers."""

    def train(self, config: Any, corpus: Corpus, symbols: Sequence[str]) -> TokenizerPair:
        """Train tokenizers on text to which the rules were applied.

        Each of `symbols`, which stand for protected text and tags, must become a token of its own,
        however rare it is.
        """

    def restore(self, state: TokenizerState) -> Tokenizer:
        """Return the tokenizer of a state."""


TOKENIZERS = Registry[TokenizerType]("tokenizer")
"""The classes of tokenizers, by name and by the type of their config."""
register_tokenizer = TOKENIZERS.register


def share_ids(tokenizers: TokenizerPair) -> bool:
    """Return whether every target token has the same id in the source vocabulary."""
    source, target = tokenizers
    if source is target:
        return True
    ids = range(len(target))
    return len(source) >= len(target) and source.tokens(ids) == target.tokens(ids)
