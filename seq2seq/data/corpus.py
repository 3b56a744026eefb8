"""The contract of a parallel corpus, and the function that opens the corpora of a configuration."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from seq2seq.data.config import DataConfig
from seq2seq.files.links import GoldLinks
from seq2seq.registry import Registry


class Pair(NamedTuple):
    """A sentence and its translation.

    Example:
        >>> Pair("ein Hund", "a dog").target
        'a dog'
    """

    source: str
    target: str
    links: GoldLinks | None = None
    """Gold links between words, as `split_words` counts them; None if unknown."""
    part: int = 0
    """Index of the pair's corpus, if several corpora are joined."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pairs that can be iterated over repeatedly in the same order, without storing them all."""

    name: str
    """Name in messages: "train", "valid" or "test", or "train.news" for one of several corpora."""
    num_lines: int
    """Number of lines, including skipped ones."""
    fingerprint: str
    """SHA-256, in hex, of everything that determines the pairs."""
    lines: Callable[[], Iterator[Pair | None]]
    """Function that yields the pair of each line, or None for a skipped line."""
    parts: tuple[tuple[str, int], ...] = ()
    """File, or name, and number of lines of each corpus that was joined."""
    path: str = ""
    """File of the sources, for messages; "" if the pairs are in memory."""
    languages: tuple[str, str] = ("source", "target")
    """Language codes of the source and the target."""

    def place(self, number: int) -> str:
        """Return where the pair of a line is, for messages; lines are numbered from 1."""
        for name, num_lines in self.parts:
            if number <= num_lines:
                return f"line {number} of {name}"
            number -= num_lines
        return f"line {number} of {self.path or self.name}"

    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs."""
        return (pair for pair in self.lines() if pair is not None)

    @classmethod
    def of(
        cls,
        pairs: Iterable[Pair],
        *,
        name: str = "pairs",
        languages: tuple[str, str] = ("source", "target"),
    ) -> "Corpus":
        """Return a corpus of pairs in memory, for programs that have their text in Python."""
        kept = list(pairs)
        plain = [[*pair[:2], pair.links and str(pair.links), *pair[3:]] for pair in kept]
        return cls(
            name=name,
            num_lines=len(kept),
            fingerprint=sha256(plain),
            lines=lambda: iter(kept),
            languages=languages,
        )


def converted(corpus: Corpus, convert: Callable[[Pair], Pair]) -> Corpus:
    """Return a corpus of converted pairs, with the same name and fingerprint."""
    return replace(corpus, lines=lambda: (pair and convert(pair) for pair in corpus.lines()))


def sha256(value: object) -> str:
    """Return the SHA-256, in hex, of lists and plain values."""
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()


class Corpora(NamedTuple):
    """The parts of a data set."""

    train: Corpus
    valid: Corpus
    test: Corpus | None
    """Test set; None: no test set."""
    other_valid: "Mapping[str, Corpus]" = MappingProxyType({})
    """Further validation sets by name; they are scored but do not choose the best checkpoint."""


DATA = Registry[Callable[..., Corpora]]("data")
"""The kinds of corpora: functions from a `DataConfig` to `Corpora`, by name."""
register_data = DATA.register


def load_corpora(config: DataConfig) -> Corpora:
    """Open the corpora of a configuration, with the function registered for its type.

    Raises:
        OSError: A file cannot be read or downloaded.
        ValueError: A file is damaged, or a value does not suit the corpus.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> corpora = load_corpora(load_config("data=grammar", "data.num_train=100").data)
        >>> pair = next(iter(corpora.train))
        >>> isinstance(pair.source, str), corpora.train.num_lines
        (True, 100)
    """
    corpora = DATA.find(config)(config)
    train = replace(corpora.train, languages=(config.source, config.target))
    return corpora._replace(train=train)
