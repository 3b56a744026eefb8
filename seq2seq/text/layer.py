"""From a line of the user to the sentences that a model reads, and back to a line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from seq2seq.text.rules import (
    NO_TEXT,
    ModelText,
    TextRules,
    in_capitals,
    recase,
    split_words,
    word_at,
)
from seq2seq.text.sentences import (
    Split,
    TextHabits,
    has_words,
    is_break,
    join_sentences,
    split_marker,
    split_sentences,
)

VERY_LONG = 1000
"""Number of tokens; in longer sentences, time and memory grow with the square of the length."""
_PART = 100
"""Maximum number of tokens in each part when a sentence of more than `VERY_LONG` tokens is cut."""


class Segment(NamedTuple):
    """A piece of a line: a sentence to translate, or text that stays, which the model does not
    read."""

    source: str
    """The whole line if it has no other piece, else the normalized piece with the line's tags."""
    model: ModelText
    """The piece as the model reads it."""
    is_cut: bool = False
    """Whether the line was cut because it, or a sentence of it, is very long."""


class TextLayer:
    """Takes lines apart into the pieces that a model reads.

    Args:
        rules: Rules of the source text.
        habits: Habits of the training text, the fields of `TextHabits`.
        count: Returns the numbers of unknown and of all tokens of a text as the model reads it.
    """

    def __init__(
        self,
        rules: TextRules,
        habits: Mapping[str, float],
        *,
        count: Callable[[str], tuple[int, int]],
    ) -> None:
        self._rules = rules
        self._habits = TextHabits(**habits)
        self._count = count

    def segments(self, line: str, split: Split = Split.auto) -> list[Segment]:
        """Return the pieces of a line in order: its sentences and what stands between them.

        The line is normalized, split, and its spans are protected, in this order. Text without
        words stays, unless the training text translates it. Text in capitals gets ordinary
        capitalization, unless the training text has such text.
        """
        text = self._rules.normalize(line)
        if not text.strip():
            return [Segment(line, NO_TEXT)]
        if split is Split.never:
            return [Segment(line, self._rules.protect(text))]
        is_split = split is Split.always or self._habits.has_sentences
        pieces = self._pieces(text) if is_split else [text]
        is_cut = any(self._is_longer(piece, VERY_LONG) for piece in pieces)
        if is_cut:
            pieces = [part for each in self._pieces(text) for part in self._cut(each, VERY_LONG)]
        sources = pieces if len(pieces) > 1 else [line]
        read = map(self._read, pieces)
        return [Segment(*each, is_cut) for each in zip(sources, read, strict=True)]

    def _read(self, text: str) -> ModelText:
        """Return a piece as the model reads it."""
        if self._stays(text):
            return ModelText("", kept=text if is_break(text) else text.strip())
        found = self._rules.protect(text)
        if not self._habits.reads_capitals and in_capitals(found.text):
            return found._replace(text=recase(found.text, self._count), in_capitals=True)
        return found

    def _stays(self, text: str) -> bool:
        return is_break(text) or (self._habits.keeps_other_text and not has_words(text))

    def _pieces(self, text: str) -> list[str]:
        """Return the sentences and markers of a normalized line."""
        start = self._rules.leading_tags(text)
        rest = text[len(start) :]
        if not rest.strip():
            return [text]
        pieces = split_sentences(rest)
        if self._habits.keeps_other_text:
            pieces = [part for each in pieces for part in split_marker(each) if part]
        if not start:
            return pieces
        start = start.lstrip()
        return [each if self._stays(each) else start + each for each in pieces]

    def _cut(self, sentence: str, most_tokens: int) -> list[str]:
        """Return the sentence, or its parts if it has too many tokens."""
        start = self._rules.leading_tags(sentence)
        text = sentence[len(start) :].strip()
        if len(text) < 2 or not self._is_longer(sentence, most_tokens):
            return [sentence]
        middle = max(text.find(" ", len(text) // 2), text.rfind(" ", 0, len(text) // 2))
        middle = middle if middle > 0 else len(text) // 2
        halves = (text[:middle], text[middle:])
        return [part for half in halves for part in self._cut(start + half.strip(), _PART)]

    def _is_longer(self, text: str, most_tokens: int) -> bool:
        # Counting tokens takes time, and hardly any line has more tokens than characters.
        return len(text) >= most_tokens and self._count(self._rules.protect(text).text)[1] > (
            most_tokens
        )

    def source_words(self, line: str, sources: Sequence[str]) -> list[list[int]]:
        """Return for each piece of a line the index in the line of each of the piece's words.

        Args:
            line: Text of the user.
            sources: The pieces, each with the tags of the line.
        """
        # The pieces are of the normalized line, whose words belong to the words of the user.
        rules = TextRules(self._rules.normalizes)
        owners = rules.owners(line, NO_TEXT)
        tags = list(map(self._rules.leading_tags, sources))
        pieces = [each.removeprefix(tag) for each, tag in zip(sources, tags, strict=True)]
        return [
            [owners[word] for word in (*range(len(tag.split())), *words)]
            for tag, words in zip(tags, words_of(rules.normalize(line), pieces), strict=True)
        ]


def words_of(line: str, pieces: Iterable[str]) -> list[list[int]]:
    """Return for each piece of a line the index in the line of each of the piece's words.

    Example:
        >>> words_of("Ja. Nein, nein.", ["Ja.", "Nein, nein."])
        [[0], [1, 2]]
    """
    found, place = [], 0
    for piece in map(str.strip, pieces):
        place = line.index(piece, place)
        first = word_at(line, place)
        # Tokens without visible characters belong to the word at their place.
        found.append([*range(first, first + max(1, len(split_words(piece))))])
        place += len(piece)
    return found


def line_of(texts: Iterable[str]) -> str:
    """Return the translation of a line, given the texts of its pieces in order."""
    return join_sentences(texts)
