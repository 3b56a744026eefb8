"""Join several corpora to one, and put tags before their sources."""

import hashlib
import json
from collections.abc import Iterator, Sequence

from seq2seq.data.corpus import Corpus, Pair


class JoinedCorpus:
    """The pairs of several corpora, one corpus after the other, with the tag of each."""

    def __init__(self, name: str, parts: Sequence[tuple[Corpus, str | None]]) -> None:
        """Join corpora, each with the word that is put before its sources, or None."""
        self.name = name
        self.num_lines = sum(corpus.num_lines for corpus, _ in parts)
        self._parts = list(parts)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256, in hex, of everything that determines the pairs."""
        parts = [[corpus.fingerprint, tag] for corpus, tag in self._parts]
        return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.lines() if pair is not None)

    def lines(self) -> Iterator[Pair | None]:
        """Yield the pairs, and None for each skipped line."""
        for index, (corpus, tag) in enumerate(self._parts):
            for pair in corpus.lines():
                if pair is None:
                    yield None
                elif tag is None:
                    yield pair._replace(part=index)
                else:
                    yield pair._replace(source=f"{tag} {pair.source}", part=index, num_tags=1)
