"""Word links of a corpus as links between its tokens, which batches turn into guides."""

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

from seq2seq.data.id_rows import Ids, Numbers, map_array


class LinkedTokens(NamedTuple):
    """The links of one pair, each at the same place of both arrays: (L,)."""

    targets: Numbers
    sources: Numbers
    num_lost: int
    """links between words that link no tokens, as a word has none of its own"""


@dataclass
class TokenLinks:
    """The links of all pairs of an encoded corpus, row after row."""

    targets: Ids
    sources: Ids
    offsets: Numbers
    """row i has the links from offsets[i] to offsets[i + 1]"""
    num_lost: int
    """links between words that link no tokens"""

    @classmethod
    def of(cls, rows: Iterable[LinkedTokens]) -> "TokenLinks":
        """Join the links of the pairs, which come in the order of the encoded corpus."""
        targets, sources, ends = array("i"), array("i"), array("q", [0])
        num_lost = 0
        for row in rows:
            targets.frombytes(row.targets.astype(np.int32).tobytes())
            sources.frombytes(row.sources.astype(np.int32).tobytes())
            ends.append(len(targets))
            num_lost += row.num_lost
        return cls(np.asarray(targets), np.asarray(sources), np.asarray(ends), num_lost)

    def save(self, folder: Path) -> None:
        """Write what `open` maps into memory."""
        for name in ("targets", "sources", "offsets"):
            (folder / name).write_bytes(getattr(self, name).tobytes())
        (folder / "num_lost").write_text(f"{self.num_lost}\n", encoding="ascii")

    @classmethod
    def open(cls, folder: Path) -> "TokenLinks":
        """Map what `save` wrote."""
        links = cls(
            map_array(folder / "targets", np.int32),
            map_array(folder / "sources", np.int32),
            map_array(folder / "offsets", np.int64),
            int((folder / "num_lost").read_text(encoding="ascii")),
        )
        if not len(links.targets) == len(links.sources) == links.offsets[-1]:
            raise OSError(f"{folder}: its arrays are damaged; delete it and start again")
        return links

    def guide(self, rows: Numbers, *, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Share 1 equally among the source tokens that each target token is linked to.

        Args:
            rows: of the corpus, (B,).
            size: T and S.

        Returns:
            Shares (B, T, S); a target token without a link, EOS and padding have zeros.
        """
        starts = self.offsets[rows]
        counts = self.offsets[rows + 1] - starts
        ends = counts.cumsum()
        places = np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)  # (L,)
        owners = np.repeat(np.arange(len(rows)), counts)  # (L,)
        guide = np.zeros((len(rows), *size), dtype=np.float32)
        guide[owners, self.targets[places], self.sources[places]] = 1
        guide /= np.maximum(guide.sum(axis=2, keepdims=True), 1)
        return guide

    def digest(self) -> str:
        """Return the SHA-256, in hex, of all links."""
        digest = hashlib.sha256()
        for numbers in (self.offsets, self.targets, self.sources):
            digest.update(numbers.tobytes())
        return digest.hexdigest()


def link_tokens(
    links: Iterable[tuple[int, int]], source_words: list[int], target_words: list[int]
) -> LinkedTokens:
    """Link every token of a target word to every token of the source words it is linked to.

    Args:
        links: pairs of a source word and a target word.
        source_words: for each source token the index of its word.
        target_words: likewise.
    """
    size = (max(target_words, default=-1) + 1, max(source_words, default=-1) + 1)
    linked = np.zeros(size, dtype=np.bool_)
    owners = set(itertools.product(source_words, target_words))
    for source, target in owners.intersection(links):
        linked[target, source] = True
    # A word may have no token of its own, as one that begins inside a longer token.
    num_lost = sum(link not in owners for link in links)
    tokens = linked[np.ix_(np.array(target_words, int), np.array(source_words, int))]  # (T, S)
    targets, sources = tokens.nonzero()
    return LinkedTokens(targets, sources, num_lost)
