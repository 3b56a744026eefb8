"""Split a text into the sentences that are translated, and put their translations in its place."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_LINE_END = re.compile(r"(\r\n|\n|\r)")

Split = Callable[[str], Sequence[str]]
"""Returns the sentences of a line."""


class SplitText(NamedTuple):
    """A text as sentences, in lines whose ends it keeps."""

    lines: list[Sequence[str]]
    """The sentences of each line; none for a blank line."""
    ends: list[str]
    """The end of each line, "" for the last."""

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of all lines."""
        return [sentence for line in self.lines for sentence in line]

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with the translation of each sentence in its place.

        Example:
            >>> from seq2seq.inference import split_sentences
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
            joined.append(" ".join(text for text in found if text) + end)
        return "".join(joined)


def split_text(text: str, split: Split) -> SplitText:
    """Split a text at its line ends, and its lines into sentences."""
    pieces = [*_LINE_END.split(text), ""]
    lines = [split(line) if line.strip() else () for line in pieces[::2]]
    return SplitText(lines, pieces[1::2])
