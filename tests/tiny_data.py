"""Data configurations and small corpora for tests."""

from collections.abc import Iterable
from dataclasses import fields, replace

from seq2seq.data.config import (
    DataConfig,
    Normalization,
    SentencePieceConfig,
    Splitter,
    WordsConfig,
)
from seq2seq.data.corpus import Corpus, Pair

BASE = DataConfig(
    name="base",
    source="de",
    target="en",
    max_length=20,
)


def shared(**changes: object) -> dict[str, object]:
    """Return the fields that all data configurations share, some of them changed."""
    return {field.name: getattr(BASE, field.name) for field in fields(BASE)} | changes


def unigram_config(**changes: object) -> SentencePieceConfig:
    """Return a configuration of small subwords, some of its fields changed."""
    return replace(_UNIGRAM, **changes)


def words_config(**changes: object) -> WordsConfig:
    """Return a configuration of words by Moses, some of its fields changed."""
    return replace(_WORDS, **changes)


_UNIGRAM = SentencePieceConfig(
    name="unigram",
    vocabulary_size=60,
    joint=False,
    normalization=Normalization.identity,
    protect=[],
)
_WORDS = WordsConfig(
    name="words",
    vocabulary_size=50,
    splitter=Splitter.moses,
    min_frequency=1,
    protect=[],
)


def list_corpus(pairs: Iterable[tuple[str, str]], *, name: str = "train") -> Corpus:
    """Return a corpus of pairs without gold links."""
    return Corpus.of((Pair(*pair) for pair in pairs), name=name, languages=("de", "en"))
