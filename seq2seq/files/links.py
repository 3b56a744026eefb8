"""Links between the words of a sentence and its translation, in Pharaoh's format."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from seq2seq.files.text import open_text

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target word, both counted from 0."""


class GoldLinks(NamedTuple):
    """Annotated links of a sentence."""

    sure: Links
    """Unambiguous links."""
    possible: Links
    """Ambiguous links and all sure links."""

    def __str__(self) -> str:
        """Return Pharaoh text in ascending order, as `parse_links` reads it."""
        return " ".join(
            f"{source}{'-' if (source, target) in self.sure else 'p'}{target}"
            for source, target in sorted(self.possible)
        )


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Return links as Pharaoh text in ascending order, such as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_links(text: str, *, where: str, base: int = 0) -> GoldLinks:
    """Parse a line of Pharaoh text: `1-2` is a sure link, `1p2` a possible one.

    Args:
        text: Links of one sentence.
        where: File and line, for error messages.
        base: Number of the first word on both sides.

    Raises:
        ValueError: An item is not a link or counts from a lower number than `base`.

    Example:
        >>> gold = parse_links("1-1 2p3", where="gold.align:1", base=1)
        >>> sorted(gold.sure), sorted(gold.possible)
        ([(0, 0)], [(0, 0), (1, 2)])
    """
    sure, possible = set(), set()
    for item in text.split():
        match = re.fullmatch(r"([0-9]{1,9})([-p])([0-9]{1,9})", item)
        link = (int(match[1]) - base, int(match[3]) - base) if match else (-1, -1)
        if match is None or min(link) < 0:
            raise ValueError(
                f"{where}: {item!r} is not a link; write source-target, both counted from {base}, "
                "as 1-2, or 1p2 for a possible link"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def read_links(path: str, *, base: int = 0) -> Iterator[GoldLinks]:
    """Yield the links on each line of a file of Pharaoh text, plain or .gz; see `parse_links`."""
    with open_text(Path(path)) as file:
        for number, line in enumerate(file, start=1):
            # No link contains a replacement character, so invalid UTF-8 raises the error that
            # names the line.
            yield parse_links(line.decode(errors="replace"), where=f"{path}:{number}", base=base)


def check_links(
    gold: GoldLinks, num_source: int, num_target: int, *, where: str, base: int = 0
) -> None:
    """Raise ValueError unless all links lie within a sentence pair with these numbers of words.

    The links count from 0; `where` and `base` are as in `parse_links`, for the message.
    """
    for source, target in sorted(gold.possible):
        if source >= num_source or target >= num_target:
            raise ValueError(
                f"{where}: link {source + base}-{target + base} lies outside the pair (source "
                f"words: {num_source}, target words: {num_target}); write source-target, both "
                f"counted from {base}"
            )
