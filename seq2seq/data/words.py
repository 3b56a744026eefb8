"""Words as tokens, and pretrained word vectors: all that is done with torchtext."""

import contextlib
import importlib.util
import io
import logging
import re
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes
from torch import Tensor
from torchtext.data.utils import get_tokenizer
from torchtext.vocab import Vectors, Vocab

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizer import (
    SPECIAL_PIECES,
    UNK,
    UNKNOWN_SURFACE,
    Tokenizer,
    TokenizerPair,
    TokenizerState,
    WordsConfig,
    register_tokenizer,
    train_tokenizers,
    word_indices,
)

logger = logging.getLogger(__name__)

KIND = "words"

_Split = Callable[[str], list[str]]
_ENDINGS = "s|t|re|ve|ll|d|m"
_SPACING = (
    (re.compile(rf"(?<=\w) ' (?=(?:{_ENDINGS})\b)"), "'"),
    (re.compile(rf" (?=(?:[.,;:!?%)\]}}]|n't|'(?:{_ENDINGS}))(?: |$))"), ""),
    (re.compile(r"(?<=[(\[{]) "), ""),
)
"""how words are put together: each pattern and what takes its place"""


class WordTokenizer:
    """A list of words, each with an id; other words are unknown."""

    def __init__(
        self, words: Sequence[str], *, tokenizer: str, language: str, lowercase: bool
    ) -> None:
        self._words = list(words)
        self._tokenizer = tokenizer
        self._language = language
        self._lowercase = lowercase
        self._split = splitter(tokenizer, language=language, lowercase=lowercase)
        self._labels = [*SPECIAL_PIECES, *self._words]
        self._surfaces = ["", UNKNOWN_SURFACE, "", "", *self._words]
        self._ids = {word: i for i, word in enumerate(self._words, start=len(SPECIAL_PIECES))}
        self._moses = MosesDetokenizer(lang=language) if tokenizer == "moses" else None

    def __len__(self) -> int:
        return len(self._labels)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        find = self._ids.get
        return [[find(word, UNK) for word in self._split(line)] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        words = [surface for surface in (self._surfaces[i] for i in ids) if surface]
        if self._moses is not None:
            sentence: str = self._moses.detokenize(words, unescape=False)
            return sentence
        text = " ".join(words)
        for pattern, replacement in _SPACING:
            text = pattern.sub(replacement, text)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._labels[i] for i in ids]

    def words(self, text: str, ids: Sequence[int]) -> list[int]:
        surfaces = self._split(text)
        if [self._ids.get(surface, UNK) for surface in surfaces] != list(ids):
            surfaces = [self._surfaces[i] for i in ids]
        # Some tokenizers change the case; casefold works letter by letter, which lower() does not.
        return word_indices(text.casefold(), [surface.casefold() for surface in surfaces])

    def state(self) -> TokenizerState:
        return {
            "kind": KIND,
            "words": list(self._words),
            "tokenizer": self._tokenizer,
            "language": self._language,
            "lowercase": self._lowercase,
        }


class PretrainedVectors(NamedTuple):
    """Vectors for a vocabulary; `matrix` (V, E) is zero in the rows of the words not found."""

    matrix: Tensor
    num_found: int


def splitter(tokenizer: str, *, language: str, lowercase: bool) -> _Split:
    """Return the function that cuts a line into words, as torchtext's `get_tokenizer` names it."""
    if tokenizer not in _SPLITTERS:
        choices = ", ".join(sorted(_SPLITTERS))
        raise ValueError(f"unknown word tokenizer {tokenizer!r}; one of: {choices}")
    split = _SPLITTERS[tokenizer](language)

    def split_line(line: str) -> list[str]:
        words = split(line.lower() if lowercase else line)
        return [word for word in words if not word.isspace()]

    return split_line


def load_vectors(path: str, tokenizer: Tokenizer, size: int) -> PretrainedVectors:
    """Read the vectors of a vocabulary's words from a GloVe or FastText text file.

    Args:
        path: lines of a word and its numbers, plain or .gz; FastText's header line is skipped.
        tokenizer: a piece is looked up as it is, then in lower case.
        size: of the embedding that the vectors are for.
    """
    vectors = _read_vectors(path)
    if vectors.dim != size:
        raise ValueError(
            f"{path} holds vectors of size {vectors.dim}, the embedding has {size}; "
            f"set the embedding size to {vectors.dim} or give another file"
        )
    matrix = torch.zeros(len(tokenizer), size)  # (V, E)
    num_found = 0
    for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))):
        row = vectors.stoi.get(piece, vectors.stoi.get(piece.lower()))
        if row is not None:
            matrix[i] = vectors.vectors[row]
            num_found += 1
    return PretrainedVectors(matrix, num_found)


@train_tokenizers.register
def _train(config: WordsConfig, corpus: Corpus) -> TokenizerPair:
    sides = (
        ("source", config.source_tokenizer, config.source_language),
        ("target", config.target_tokenizer, config.target_language),
    )
    splits = [
        splitter(tokenizer, language=language, lowercase=config.lowercase)
        for _, tokenizer, language in sides
    ]
    counts: list[Counter[str]] = [Counter(), Counter()]
    for pair in corpus:
        counts[0].update(splits[0](pair.source))
        counts[1].update(splits[1](pair.target))
    source, target = (
        WordTokenizer(
            _choose(config, count, label=f"{corpus.name} ({side})"),
            tokenizer=tokenizer,
            language=language,
            lowercase=config.lowercase,
        )
        for count, (side, tokenizer, language) in zip(counts, sides, strict=True)
    )
    return TokenizerPair(source, target)


@register_tokenizer(KIND)
def _restore(state: TokenizerState) -> WordTokenizer:
    words, tokenizer, language = state["words"], state["tokenizer"], state["language"]
    assert isinstance(words, list)
    assert isinstance(tokenizer, str)
    assert isinstance(language, str)
    return WordTokenizer(
        words, tokenizer=tokenizer, language=language, lowercase=bool(state["lowercase"])
    )


def _choose(config: WordsConfig, counts: Counter[str], *, label: str) -> list[str]:
    if not counts:
        raise ValueError(f"{label}: no text to train a tokenizer on; give a corpus with pairs")
    vocabulary = Vocab(
        counts,
        max_size=config.vocabulary_size - len(SPECIAL_PIECES),
        min_freq=config.min_frequency,
        specials=list(SPECIAL_PIECES),
    )
    words: list[str] = vocabulary.itos[len(SPECIAL_PIECES) :]
    num_unknown = counts.total() - sum(counts[word] for word in words)
    logger.info(
        "%s: %d of %d different words are in the vocabulary; %d of %d in the text are unknown",
        label,
        len(words),
        len(counts),
        num_unknown,
        counts.total(),
    )
    return words


def _moses(language: str) -> _Split:
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # Moses itself would go on with the rules of English
        raise ValueError(
            f"Moses has no rules for the language {language!r}, only for {', '.join(known)}; set "
            "data.source and data.target, or tokenizer.source_language and target_language"
        )
    # get_tokenizer("moses") knows English rules alone and writes "&apos;" for an apostrophe.
    split: _Split = get_tokenizer(partial(MosesTokenizer(lang=language).tokenize, escape=False))
    return split


def _basic_english(language: str) -> _Split:
    if language != "en":
        raise ValueError(f"word tokenizer basic_english is for en, not {language}; choose moses")
    split: _Split = get_tokenizer("basic_english")
    return split


def _spacy(language: str) -> _Split:
    pipeline = "en_core_web_sm" if language == "en" else f"{language}_core_news_sm"
    advice = f"run: pip install spacy && python -m spacy download {pipeline}"
    if importlib.util.find_spec("spacy") is None:
        raise ValueError(f"word tokenizer spacy needs the package spacy and {pipeline}; {advice}")
    try:
        split: _Split = get_tokenizer("spacy", language=pipeline)
    except OSError as error:
        raise ValueError(f"word tokenizer spacy lacks its model {pipeline}; {advice}") from error
    return split


def _toktok(language: str) -> _Split:
    if importlib.util.find_spec("nltk") is None:
        raise ValueError("word tokenizer toktok needs the package nltk; run: pip install nltk")
    split: _Split = get_tokenizer("toktok", language=language)
    return split


_SPLITTERS: dict[str, Callable[[str], _Split]] = {
    "basic_english": _basic_english,
    "moses": _moses,
    "spacy": _spacy,
    "toktok": _toktok,
}


def _read_vectors(path: str) -> Vectors:
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"{path}: no such file of word vectors; download GloVe or FastText vectors, unpack "
            "them, and give the path of the text file"
        )
    # torchtext would keep a copy under the bare file name, and take an old one for a new file.
    with _torchtext_contained(), TemporaryDirectory() as cache:
        try:
            return Vectors(path, cache=cache)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is no file of word vectors, which has lines of a word and its numbers, "
                f"all of one size ({error})"
            ) from error


@contextlib.contextmanager
def _torchtext_contained() -> Iterator[None]:
    """Undo what `Vectors` does to the process: it stops the checking of HTTPS certificates."""
    create_context = ssl._create_default_https_context
    # Its progress bar is for terminals alone.
    stream = sys.stderr if sys.stderr.isatty() else io.StringIO()
    try:
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        ssl._create_default_https_context = create_context
