"""Convert links between words to links between tokens, which guide attention."""

# B batch, S source length, T target length, L links

import hashlib
import itertools
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq.data.encoded import Ids, Numbers, map_array
from seq2seq.files.atomic import create_file


class LinkedTokens(NamedTuple):
    """Links between the tokens of one pair."""

    targets: Numbers
    """Target token of each link, (L,)."""
    sources: Numbers
    """Source token of each link, (L,)."""
    num_lost: int
    """Number of links lost because one of their words has no token of its own."""


@dataclass
class TokenLinks:
    """Links between the tokens of all pairs of an encoded corpus, row by row."""

    targets: Ids
    sources: Ids
    offsets: Numbers
    """Row i has the links from offsets[i] to offsets[i + 1]."""
    num_lost: int
    """Number of links lost because one of their words has no token of its own."""

    @classmethod
    def of(cls, rows: Iterable[LinkedTokens]) -> "TokenLinks":
        """Concatenate the links of the pairs, in the order of the encoded corpus."""
        targets, sources, ends = array("i"), array("i"), array("q", [0])
        num_lost = 0
        for row in rows:
            targets.frombytes(row.targets.astype(np.int32).tobytes())
            sources.frombytes(row.sources.astype(np.int32).tobytes())
            ends.append(len(targets))
            num_lost += row.num_lost
        return cls(np.asarray(targets), np.asarray(sources), np.asarray(ends), num_lost)

    def save(self, folder: Path) -> None:
        """Write the links into a folder."""
        for name in ("targets", "sources", "offsets"):
            with create_file(folder / name) as file:
                file.write(getattr(self, name).tobytes())
        with create_file(folder / "num_lost") as file:
            file.write(f"{self.num_lost}\n".encode("ascii"))

    @classmethod
    def open(cls, folder: Path) -> "TokenLinks":
        """Map the files that `save` wrote."""
        return cls(
            map_array(folder / "targets", np.int32),
            map_array(folder / "sources", np.int32),
            map_array(folder / "offsets", np.int64),
            int((folder / "num_lost").read_text(encoding="ascii")),
        )

    def guide(self, rows: Numbers, *, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Return gold attention: equal shares of 1 for the source tokens of each target token.

        Args:
            rows: Rows of the corpus, (B,).
            size: Lengths T and S.

        Returns:
            Shares, (B, T, S); 0 for target tokens without a link, EOS and padding.
        """
        starts = self.offsets[rows]
        counts = self.offsets[rows + 1] - starts
        ends = counts.cumsum()
        positions = np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)  # (L,)
        owners = np.repeat(np.arange(len(rows)), counts)  # (L,)
        guide = np.zeros((len(rows), *size), dtype=np.float32)
        guide[owners, self.targets[positions], self.sources[positions]] = 1
        guide /= np.maximum(guide.sum(axis=2, keepdims=True), 1)
        return guide

    def digest(self) -> str:
        """Return the SHA-256 of all links, in hex."""
        digest = hashlib.sha256()
        for numbers in (self.offsets, self.targets, self.sources):
            digest.update(numbers.tobytes())
        return digest.hexdigest()


def link_tokens(
    links: Iterable[tuple[int, int]], source_words: list[int], target_words: list[int]
) -> LinkedTokens:
    """Link every token of a target word to every token of its source words.

    Args:
        links: Pairs of a source word and a target word, counted from 0.
        source_words: Index of the word of each source token.
        target_words: Index of the word of each target token.

    Example:
        >>> linked = link_tokens([(0, 1)], source_words=[0, 0], target_words=[0, 1])
        >>> linked.targets.tolist(), linked.sources.tolist()
        ([1, 1], [0, 1])
    """
    size = (max(target_words, default=-1) + 1, max(source_words, default=-1) + 1)
    linked = np.zeros(size, dtype=np.bool_)
    owners = set(itertools.product(source_words, target_words))
    for source, target in owners.intersection(links):
        linked[target, source] = True
    # A word that begins inside a longer token has no token of its own.
    num_lost = sum(link not in owners for link in links)
    tokens = linked[np.ix_(np.array(target_words, int), np.array(source_words, int))]  # (T, S)
    targets, sources = tokens.nonzero()
    return LinkedTokens(targets, sources, num_lost)
