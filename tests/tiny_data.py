"""Data configurations and a small grammar for tests."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from seq2seq.data import DataConfig, OnInvalid, Pair
from seq2seq.data.grammar.grammar import Grammar
from seq2seq.data.grammar.parser import parse_grammar

BASE = DataConfig(
    name="base",
    source="de",
    target="en",
    cache_dir="cache",
    vocabulary_size=50,
    max_epochs=3,
    batch_tokens=100,
    learning_rate=0.001,
    dropout=0.1,
    max_length=20,
    empty_lines=OnInvalid.error,
    long_pairs=OnInvalid.error,
    invalid_utf8=OnInvalid.error,
)


def shared(**changes: object) -> dict[str, object]:
    """Return the fields that all data configurations share, some of them changed."""
    return {field.name: getattr(BASE, field.name) for field in fields(BASE)} | changes


@dataclass
class TinyCorpus:
    """Pairs of a list; None stands for a skipped line."""

    pairs: list[Pair | None]
    name: str = "train"
    fingerprint: str = "tiny"

    @property
    def num_lines(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.pairs if pair is not None)

    def lines(self) -> Iterator[Pair | None]:
        return iter(self.pairs)


TOY_GRAMMAR = """\
# a small language
languages: de en

feature number: sg*2 pl
feature gender: m f

Sentence *3: The[number gender] Noun[gender].number Verb.number .
           | The Noun.number Verb.number .
Sentence: nein . | no .

The[sg m]: der | the
The[sg f]: die | the
The[pl gender]: die | the   # both

words Noun[gender]: sg pl | sg pl
  m: Hund Hunde | dog dogs
  f: Katze Katzen | cat cats

words Verb: sg pl | * sg
  schläft schlafen | sleep sleeps
"""


def toy_grammar(text: str = TOY_GRAMMAR) -> Grammar:
    """Parse a grammar whose errors name the file toy.grammar."""
    return parse_grammar(text, path="toy.grammar")
