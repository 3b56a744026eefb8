"""Long lines, translated sentence by sentence."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from seq2seq.inference.sentence_ends import split_sentences
from seq2seq.inference.translation import Translation


class _Line(NamedTuple):
    text: str
    num_sentences: int


class SentenceSplitter:
    """Lines, of which the long ones are cut at the ends of their sentences.

    What is translated is what this yields, and `join` makes it translations of lines again.
    """

    def __init__(
        self,
        lines: Iterable[str],
        *,
        has_more: Callable[[], bool],
        num_tokens: Callable[[str], int],
        split_length: int,
    ) -> None:
        """Cut lines of more than `split_length` tokens, which `num_tokens` counts."""
        self._lines = lines
        self._has_more = has_more
        self._num_tokens = num_tokens
        self._split_length = split_length
        self._is_within = False
        self._pending: deque[_Line] = deque()  # not yet joined

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            sentences = split_sentences(line) if self._is_long(line) else [line]
            self._pending.append(_Line(line, len(sentences)))
            for place, sentence in enumerate(sentences, start=1):
                self._is_within = place < len(sentences)
                yield sentence

    def has_more(self) -> bool:
        """Say whether another sentence can be had without waiting."""
        return self._is_within or self._has_more()

    def join(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """Join the translations of the sentences of a line with a space.

        Of what was joined the text means something, and neither its score nor its attention.
        """
        parts: list[Translation] = []
        for translation in translations:
            parts.append(translation)
            if len(parts) == self._pending[0].num_sentences:
                yield _join(self._pending.popleft().text, parts)
                parts = []

    def _is_long(self, line: str) -> bool:
        # A token has a character or more, but for one that may mark the beginning.
        return len(line) >= self._split_length and self._num_tokens(line) > self._split_length


def _join(line: str, parts: list[Translation]) -> Translation:
    if len(parts) == 1:
        return parts[0]
    first = parts[0].hypotheses[0]
    texts = [part.hypotheses[0].text for part in parts]
    joined = first._replace(text=" ".join(text for text in texts if text))
    return parts[0]._replace(source=line, hypotheses=[joined])
