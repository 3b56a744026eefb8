"""Split a text into sentences, and replace the sentences by their translations."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from seq2seq.text.sentences import join_sentences

_LINE_END = re.compile(r"(\r\n|\n|\r)")
SplitLine = Callable[[str], Sequence[str]]
"""Function that returns the sentences of a line."""


class SplitText(NamedTuple):
    """A text as lines of sentences, with the original line breaks."""

    lines: list[Sequence[str]]
    """Sentences of each line; empty for a blank line."""
    ends: list[str]
    """Line break after each line, "" for the last line."""

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of all lines."""
        return [sentence for line in self.lines for sentence in line]

    def join(self, translations: Iterable[str]) -> str:
        """Return the text with the translation of each sentence in its place.

        Example:
            >>> from seq2seq.text.sentences import split_sentences
            >>> text = split_text("Ja. Nein.\\r\\n\\nJa.", split_sentences)
            >>> text.sentences
            ['Ja.', 'Nein.', 'Ja.']
            >>> text.join(["Yes.", "No.", "Yes."])
            'Yes. No.\\r\\n\\nYes.'
        """
        remaining = iter(translations)
        joined = []
        for line, end in zip(self.lines, self.ends, strict=True):
            found = [next(remaining) for _ in line]
            joined.append(join_sentences(found) + end)
        return "".join(joined)


def split_text(text: str, split: SplitLine) -> SplitText:
    """Split a text at its line ends, and its lines into sentences."""
    pieces = [*_LINE_END.split(text), ""]
    lines = [split(line) if line.strip() else () for line in pieces[::2]]
    return SplitText(lines, pieces[1::2])
