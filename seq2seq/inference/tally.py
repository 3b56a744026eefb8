"""Count what deserves a warning, and remember the first lines that it concerns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_LINES = 5
"""Number of lines that a warning names."""
_KEPT_TEXTS = 1000
"""Number of different unknown texts that are counted, to bound memory."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of what deserves a warning, each with the first lines that it concerns."""

    numbers: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[str]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    """Source texts of unknown tokens."""

    def count(self, name: str, line: str, number: int = 1) -> None:
        """Add a number that a line causes."""
        if number:
            self.numbers[name] += number
            self._add_lines(name, [line])

    def add(self, other: "Tally") -> None:
        """Add the counts of a later part of the stream."""
        self.numbers.update(other.numbers)
        for name, lines in other.lines.items():
            self._add_lines(name, lines)
        for text, number in other.unknown.items():
            if text in self.unknown or len(self.unknown) < _KEPT_TEXTS:
                self.unknown[text] += number

    def where(self, name: str) -> str:
        """Return the first lines of a count for a message: ` (lines 2, 5, 9)`."""
        lines = self.lines.get(name, [])
        more = ", ..." if len(lines) > _MOST_LINES else ""
        shown = f"line{'s' * (len(lines) > 1)} {', '.join(lines[:_MOST_LINES])}{more}"
        return f" ({shown})" if lines else ""

    def _add_lines(self, name: str, lines: Sequence[str]) -> None:
        known = self.lines.setdefault(name, [])
        new = [line for line in lines if line not in known]
        known += new[: _MOST_LINES + 1 - len(known)]
