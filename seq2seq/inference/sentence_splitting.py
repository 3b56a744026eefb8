"""Split lines into sentences for a model, and join the translations of the sentences."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np

from seq2seq.inference.results import TranslatedHypothesis, Translation, distinct
from seq2seq.inference.windows import VERY_LONG
from seq2seq.special_tokens import EOS
from seq2seq.text.sentences import (
    Split,
    TextHabits,
    has_words,
    join_sentences,
    split_marker,
    split_sentences,
)

_PART = 100
"""Maximum number of tokens in each part when a sentence of more than `VERY_LONG` tokens is cut."""
MOST_WEIGHTS = 1_000_000
"""Maximum number of attention weights of a head that a joined translation has."""


class SentenceSplitter:
    """Splits lines into the sentences that a model translates, and text that stays as it is.

    Args:
        habits: Habits of the training text.
        split: The lines to split.
        num_tokens: Returns the number of tokens of a line.
        leading_symbols: Returns the start of a line that each of its sentences needs, such as a
            language tag.
    """

    def __init__(
        self,
        habits: TextHabits,
        *,
        split: Split = Split.auto,
        num_tokens: Callable[[str], int],
        leading_symbols: Callable[[str], str] = lambda line: "",
    ) -> None:
        self._is_active = split is not Split.never
        self._splits = split is Split.always or (self._is_active and habits.has_sentences)
        self._keeps_other_text = self._is_active and habits.keeps_other_text
        self.recases = self._is_active and not habits.reads_capitals
        """Whether text in capitals is translated in usual letters."""
        self._num_tokens = num_tokens
        self._leading_symbols = leading_symbols

    def stays(self, sentence: str) -> bool:
        """Return whether a sentence is not translated, because it has no words."""
        return not sentence.strip() or (self._keeps_other_text and not has_words(sentence))

    def sentences(self, line: str) -> list[str]:
        """Return the sentences of a line, and markers before them, or the line."""
        return self._sentences(line) if self._splits else [line]

    def parts(self, line: str) -> tuple[list[str], bool]:
        """Return the sentences of a line, and whether the line or a sentence was too long."""
        if not self._is_active:
            return [line], False
        sentences = self.sentences(line)
        is_long = [self._is_longer(sentence, VERY_LONG) for sentence in sentences]
        if not any(is_long):
            return sentences, False
        sentences = self._sentences(line)
        return [part for each in sentences for part in self._cut(each, VERY_LONG)], True

    def _sentences(self, line: str) -> list[str]:
        start = self._leading_symbols(line)
        text = line[len(start) :]
        if not text.strip():
            return [line]
        sentences = split_sentences(text)
        if self._keeps_other_text:
            sentences = [part for each in sentences for part in split_marker(each) if part]
        if not start:
            return sentences
        start = start.lstrip()
        return [each if self.stays(each) else start + each for each in sentences]

    def _cut(self, sentence: str, most_tokens: int) -> list[str]:
        """Return a sentence, or parts of some words if it has too many tokens."""
        if not self._is_longer(sentence, most_tokens):
            return [sentence]
        start = self._leading_symbols(sentence)
        text = sentence[len(start) :].strip()
        middle = max(text.find(" ", len(text) // 2), text.rfind(" ", 0, len(text) // 2))
        middle = middle if middle > 0 else len(text) // 2
        halves = (text[:middle], text[middle:])
        return [part for half in halves for part in self._cut(start + half.strip(), _PART)]

    def _is_longer(self, text: str, most_tokens: int) -> bool:
        # Counting tokens takes time, and hardly any line has more tokens than characters.
        return len(text) >= most_tokens and self._num_tokens(text) > most_tokens


class Sentence(NamedTuple):
    """A sentence of a line of a stream."""

    line: int
    """Index of the line."""
    text: str
    prefix: str
    """Beginning of its translation."""


class SplitLines:
    """The sentences of a stream of lines, whose translations are joined again.

    The sentences of the prefix of a line begin the translations of its sentences.

    Args:
        lines: Lines, each with a prefix of its translation.
        splitter: Splits the lines.
        count: Called with `split` and the index of a line that was too long.
    """

    def __init__(
        self,
        lines: Iterable[tuple[str, str]],
        splitter: SentenceSplitter,
        count: Callable[[str, int], None] = lambda name, line: None,
    ) -> None:
        self._lines = lines
        self._splitter = splitter
        self._count = count
        self._waiting: deque[tuple[str, int]] = deque()

    def __iter__(self) -> Iterator[Sentence]:
        """Yield the sentences of all lines."""
        for index, (line, prefix) in enumerate(self._lines):
            parts, was_too_long = self._splitter.parts(line)
            if was_too_long:
                self._count("split", index)
            self._waiting.append((line, len(parts)))
            yield from map(Sentence, repeat(index), parts, _prefixes(prefix, len(parts)))

    def join(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """Yield the translations of the lines from those of their sentences."""
        remaining = iter(translations)
        for first in remaining:
            line, number = self._waiting.popleft()
            yield join_translations(line, [first, *islice(remaining, number - 1)])


def _prefixes(prefix: str, number: int) -> list[str]:
    """Return the beginnings of the translations of the sentences of a line."""
    if number == 1 or not prefix:
        return [prefix] + [""] * (number - 1)
    sentences = split_sentences(prefix)
    first, last = sentences[: number - 1], sentences[number - 1 :]
    return [*first, *[""] * (number - 1 - len(first)), join_sentences(last)]


def join_translations(line: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of the sentences of a line to the translation of the line.

    The nth hypothesis joins the nth of each sentence, or the last of sentences that have fewer.
    No token has attention in another sentence.
    """
    if len(parts) == 1:
        [part] = parts
        return part if part.source == line else part._replace(source=line)
    number = max(len(part.hypotheses) for part in parts)
    ranks = [[part.hypotheses[: rank + 1][-1] for part in parts] for rank in range(number)]
    return Translation(
        source=line,
        source_ids=[token for part in parts for token in (*part.source_ids, EOS)][:-1],
        source_tokens=[token for part in parts for token in part.source_tokens],
        hypotheses=distinct(map(_join_hypotheses, ranks)),
        parts=parts,
    )


def has_attention(translation: Translation) -> bool:
    """Return whether a translation was not too long to keep its attention weights."""
    return 0 not in translation.best.attention_weights.shape[1:]


def _join_hypotheses(parts: Sequence[TranslatedHypothesis]) -> TranslatedHypothesis:
    ids = [token for part in parts for token in (*part.ids, *[EOS][: part.finished])]
    return TranslatedHypothesis(
        text=join_sentences(part.text for part in parts),
        score=sum(part.score for part in parts),
        log_probability=sum(part.log_probability for part in parts),
        finished=all(part.finished for part in parts),
        ids=ids[:-1] if parts[-1].finished else ids,
        tokens=[token for part in parts for token in part.tokens],
        attention_weights=_join_weights([part.attention_weights for part in parts]),
        token_log_probabilities=[value for part in parts for value in part.token_log_probabilities],
        parts=parts,
    )


def _join_weights(blocks: Sequence[Any]) -> Any:
    """Return the weights of all sentences along a diagonal, or none if they are too many."""
    heights, widths = ([block.shape[axis] for block in blocks] for axis in (1, 2))
    if sum(heights) * sum(widths) > MOST_WEIGHTS:
        return blocks[0][:, :0, :0]
    shape = (len(blocks[0]), sum(heights), sum(widths))
    is_tensor = hasattr(blocks[0], "new_zeros")
    joined = blocks[0].new_zeros(shape) if is_tensor else np.zeros(shape, blocks[0].dtype)
    row = column = 0
    for block, height, width in zip(blocks, heights, widths, strict=True):
        joined[:, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return joined
