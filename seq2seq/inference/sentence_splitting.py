"""Split long lines into sentences, and join the translations of the sentences."""

import re
from collections.abc import Callable

from seq2seq.inference.results import Translation
from seq2seq.inference.windows import VERY_LONG

_STOPS = ".!?\u2026\u061f\u06d4\u0964\u1362"
"""Marks that end a sentence if a space follows: . ! ? and their equivalents in other scripts."""
_CLOSING = "\"'\u00bb\u2019\u201c\u201d)]"
"""Marks that may occur between the stop and the space."""
_PART = 100
"""Maximum number of tokens in each part when a sentence of more than `VERY_LONG` tokens is cut."""
_CONTEXT = 20
"""Number of characters before a space that are inspected."""
ABBREVIATIONS = frozenset(
    (
        *("bzw", "ca", "dr", "etc", "evtl", "fr", "ggf", "hr", "inc", "jr", "mr", "mrs", "ms"),
        *("mt", "nr", "no", "prof", "sr", "st", "usw", "vgl", "vs"),
    )
)

# Chinese and Japanese stops need no space after them. No position is tried twice, which keeps
# the time linear in the length of the text.
_GAP = re.compile(r"[\u3002\uff01\uff1f]+[\u300d\u300f\uff09\u201d]*\s*|(?P<spaces>\s+)")
_LAST_WORD = re.compile(r"\w*\.\Z")


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


def split_sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences and drop the spaces between them.

    A sentence is not split after a single letter (J. Bach), one or two digits (am 3. Mai) or a
    known abbreviation, nor before a lower-case letter.

    Example:
        >>> split_sentences("Am 3. Mai kam Dr. Bach. Es regnete!")
        ['Am 3. Mai kam Dr. Bach.', 'Es regnete!']
    """
    sentences = []
    start = 0
    for gap in _GAP.finditer(text):
        is_inside = start < gap.start() and gap.end() < len(text)
        before = text[max(start, gap.start() - _CONTEXT) : gap.start()]
        if is_inside and (gap["spaces"] is None or _is_end(before, text[gap.end()])):
            sentences.append(text[start : gap.end()].rstrip())
            start = gap.end()
    return [*sentences, text[start:]]


def _is_end(before: str, following: str) -> bool:
    before = before.rstrip(_CLOSING)
    if not before.endswith(tuple(_STOPS)) or following.islower():
        return False
    found = _LAST_WORD.search(before)
    if found is None:
        return True
    word = found[0].removesuffix(".")
    is_short_number = word.isdecimal() and len(word) < 3
    is_initial = len(word) == 1 and word.isalpha()
    return not (is_short_number or is_initial or word.lower() in ABBREVIATIONS)


def join_sentences(line: str, parts: list[Translation]) -> Translation:
    """Join the translated sentences of a line with spaces.

    Only the text of a joined translation is meaningful, not its score or attention.
    """
    if len(parts) == 1:
        return parts[0]
    texts = [part.text for part in parts]
    joined = parts[0].best._replace(text=" ".join(text for text in texts if text))
    return parts[0]._replace(source=line, hypotheses=[joined])
