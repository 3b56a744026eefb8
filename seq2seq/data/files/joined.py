"""Join several corpora to one, and put tags before their sources."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2seq.data.corpus import Corpus, Pair


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A corpus that is joined to others."""

    corpus: Corpus
    tag: str | None = None
    """Word that is put before each source."""


class JoinedCorpus:
    """The pairs of several corpora, one corpus after the other, with the tag of each."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name = name
        self._parts = list(parts)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256, in hex, of everything that determines the pairs."""
        parts = [[part.corpus.fingerprint, part.tag] for part in self._parts]
        return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()

    @property
    def num_lines(self) -> int:
        return sum(part.corpus.num_lines for part in self._parts)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.lines() if pair is not None)

    def lines(self) -> Iterator[Pair | None]:
        """Yield the pairs, and None for each skipped line."""
        for index, part in enumerate(self._parts):
            for pair in part.corpus.lines():
                if pair is None:
                    yield None
                elif part.tag is None:
                    yield pair._replace(part=index)
                else:
                    yield pair._replace(source=f"{part.tag} {pair.source}", part=index, num_tags=1)
