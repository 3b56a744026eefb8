"""Habits of the training text that decide how other text is cut up for its model."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from seq2seq.text.rules import in_capitals
from seq2seq.text.sentences import has_words, split_sentences

_MANY, _SOME = 0.5, 0.01
"""Shares from which on a model has learned to translate lines with several sentences, and lines
without words or in capitals."""


class Split(Enum):
    """The treatment of lines with several sentences."""

    auto = "auto"
    """Split the line if most lines of the training text have one sentence, or if it has more than
    1,000 tokens."""
    always = "always"
    """Split every line into its sentences."""
    never = "never"
    """Translate each line as it is: as a whole, also text without words, and in its capitals."""


class TextHabits(NamedTuple):
    """Shares of the training pairs; 0 if they are not known."""

    several_sentences: float = 0.0
    """Share of the sources with several sentences."""
    without_words: float = 0.0
    """Share of the sources without words that have another text as target."""
    capitals: float = 0.0
    """Share of the sources in capitals."""

    @property
    def has_sentences(self) -> bool:
        """Return whether most lines are single sentences."""
        return self.several_sentences < _MANY

    @property
    def keeps_other_text(self) -> bool:
        """Return whether text without words is not translated."""
        return self.without_words < _SOME

    @property
    def reads_capitals(self) -> bool:
        """Return whether the model has learned to translate text in capitals."""
        return self.capitals >= _SOME


UNKNOWN_HABITS = TextHabits()


def count_habits(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the numbers of pairs that `TextHabits` gives the shares of.

    Example:
        >>> count_habits([("Ja. Nein.", "Yes. No."), ("12:30", "half past twelve"), ("5", "5")])
        {'several_sentences': 1, 'without_words': 1, 'capitals': 0}
    """
    several = others = capitals = 0
    for source, target in pairs:
        several += len(split_sentences(source)) > 1
        others += source != target and not has_words(source)
        capitals += in_capitals(source)
    return dict(zip(TextHabits._fields, (several, others, capitals), strict=True))
