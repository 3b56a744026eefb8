"""Split long lines into sentences, and join the translations of the sentences."""

from collections.abc import Callable

from seq2seq.inference.results import Translation
from seq2seq.inference.windows import VERY_LONG
from seq2seq.text.sentences import join_sentences, split_sentences

_PART = 100
"""Maximum number of tokens in each part when a sentence of more than `VERY_LONG` tokens is cut."""


class SentenceSplitter:
    """Splits lines of many tokens at the ends of their sentences.

    Sentences of more than `VERY_LONG` tokens are also cut.

    Args:
        split_length: Maximum number of tokens of a line that stays whole.
        num_tokens: Returns the number of tokens of a line.
        leading_symbols: Returns the start of a line that each of its sentences needs, such as a
            language tag.
    """

    def __init__(
        self,
        *,
        split_length: int,
        num_tokens: Callable[[str], int],
        leading_symbols: Callable[[str], str] = lambda line: "",
    ) -> None:
        self._most_tokens = max(split_length, VERY_LONG)
        self._split_length = split_length
        self._num_tokens = num_tokens
        self._leading_symbols = leading_symbols

    def split(self, line: str) -> tuple[list[str], bool]:
        """Return the sentences of a line, and whether it was too long to translate."""
        sentences = self.sentences(line)
        parts = [part for each in sentences for part in self._cut(each, self._most_tokens)]
        has_long_sentence = len(parts) > len(sentences)
        was_whole = len(parts) == 1
        return parts, has_long_sentence or not (was_whole or self._split_length < VERY_LONG)

    def sentences(self, line: str) -> list[str]:
        """Return the sentences of a line of many tokens, whole ones, or the line."""
        # Counting tokens takes time, and hardly any line has more tokens than characters.
        if len(line) < self._split_length or self._num_tokens(line) <= self._split_length:
            return [line]
        start = self._leading_symbols(line)
        return [start.lstrip() + sentence for sentence in split_sentences(line[len(start) :])]

    def _cut(self, sentence: str, most_tokens: int) -> list[str]:
        """Return a sentence, or parts of some words if it has too many tokens."""
        if len(sentence) < most_tokens or self._num_tokens(sentence) <= most_tokens:
            return [sentence]
        start = self._leading_symbols(sentence)
        text = sentence[len(start) :].strip()
        middle = max(text.find(" ", len(text) // 2), text.rfind(" ", 0, len(text) // 2))
        middle = middle if middle > 0 else len(text) // 2
        halves = (text[:middle], text[middle:])
        return [part for half in halves for part in self._cut(start + half.strip(), _PART)]


def join_translations(line: str, parts: list[Translation]) -> Translation:
    """Join the translated sentences of a line.

    Only the text of a joined translation is meaningful, not its score or attention.
    """
    if len(parts) == 1:
        return parts[0]
    joined = parts[0].best._replace(text=join_sentences(part.text for part in parts))
    return parts[0]._replace(source=line, hypotheses=[joined])
