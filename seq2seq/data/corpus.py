"""What a parallel corpus is to the rest of the program, and how a configuration becomes one."""

from collections.abc import Iterator
from functools import singledispatch
from typing import NamedTuple, Protocol

from seq2seq.data.config import DataConfig


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    links: frozenset[tuple[int, int]] | None
    """gold word links (source word, target word), 0-based words of text.split(); None: unknown"""


class Corpus(Protocol):
    """Pairs that can be read again and again, in one order, without holding them all."""

    @property
    def name(self) -> str:
        """Say which part this is in messages: train, valid or test."""

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256, in hex, of all that decides which pairs come."""

    @property
    def num_lines(self) -> int:
        """Return how many lines there are, with those that are left out."""

    def __iter__(self) -> Iterator[Pair]: ...

    def lines(self) -> Iterator[Pair | None]:
        """Yield what `__iter__` does, and None for each line that is left out."""


class Corpora(NamedTuple):
    """The three parts of a data set."""

    train: Corpus
    valid: Corpus
    test: Corpus


@singledispatch
def load_corpora(config: DataConfig) -> Corpora:
    """Return the corpora that the configuration names; each type registers its own loader."""
    raise TypeError(f"no corpus is registered for the configuration {type(config).__name__}")
