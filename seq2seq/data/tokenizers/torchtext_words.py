"""Split lines into words, join words, choose a vocabulary and read vectors by torchtext.

torchtext and sacremoses take a good part of a second to load, so only this module imports them,
and words.py imports it in the functions that need it.
"""

import contextlib
import importlib.util
import io
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes
from torchtext.data.utils import get_tokenizer
from torchtext.vocab import Vectors, Vocab

from seq2seq.special_tokens import SPECIAL_TOKENS

Split = Callable[[str], list[str]]
"""Splits a line into words."""
Join = Callable[[list[str]], str]
"""Joins words to a sentence."""


def splitter(tokenizer: str, *, language: str, lowercase: bool) -> Split:
    """Return the function that splits a line into words.

    Args:
        tokenizer: Name for torchtext's `get_tokenizer`: basic_english, moses, spacy or toktok.
        language: Language code.
        lowercase: Convert lines to lower case first.

    Raises:
        ValueError: The tokenizer does not exist, does not support the language, or lacks a package.

    Example:
        >>> splitter("moses", language="de", lowercase=False)("Der Hund, z.B. ein Dackel.")
        ['Der', 'Hund', ',', 'z.B.', 'ein', 'Dackel', '.']
    """
    if tokenizer not in _SPLITTERS:
        choices = ", ".join(sorted(_SPLITTERS))
        raise ValueError(f"unknown word tokenizer {tokenizer!r}; one of: {choices}")
    split = _SPLITTERS[tokenizer](language)

    def split_line(line: str) -> list[str]:
        words = split(line.lower() if lowercase else line)
        return [word for word in words if not word.isspace()]

    return split_line


def moses_joiner(language: str) -> Join:
    """Return the function that joins words by the rules of Moses."""
    detokenizer = MosesDetokenizer(lang=language)

    def join(words: list[str]) -> str:
        sentence: str = detokenizer.detokenize(words, unescape=False)
        return sentence

    return join


def has_moses_rules(language: str) -> bool:
    """Return whether Moses has rules for a language code."""
    return language in NonbreakingPrefixes().available_langs.values()


def frequent_words(counts: Counter[str], *, limit: int, min_frequency: int) -> list[str]:
    """Return up to `limit` words of this frequency, the most frequent first."""
    vocabulary = Vocab(
        counts,
        max_size=limit,
        min_freq=min_frequency,
        specials=list(SPECIAL_TOKENS),
    )
    words: list[str] = vocabulary.itos[len(SPECIAL_TOKENS) :]
    return words


def read_vectors(path: str) -> Vectors:
    """Read a GloVe or FastText text file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file does not contain word vectors.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"{path}: no such file of word vectors; download GloVe or FastText vectors, unpack "
            "them, and give the path of the text file"
        )
    # torchtext caches by file name and would return an old file's vectors for a new file.
    with _torchtext_contained(), TemporaryDirectory() as cache:
        try:
            return Vectors(path, cache=cache)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a file of word vectors; each line must have a word and its "
                f"numbers, equally many on all lines ({error})"
            ) from error


def _moses(language: str) -> Split:
    if not has_moses_rules(language):  # sacremoses would silently use some English ones
        known = ", ".join(sorted(set(NonbreakingPrefixes().available_langs.values())))
        raise ValueError(f"Moses has no rules for the language {language!r}; one of: {known}")
    # get_tokenizer("moses") has only English rules and writes "&apos;" for an apostrophe.
    split: Split = get_tokenizer(partial(MosesTokenizer(lang=language).tokenize, escape=False))
    return split


def _basic_english(language: str) -> Split:
    if language != "en":
        raise ValueError(
            f"word tokenizer basic_english is for en, not {language}; choose moses, or set the "
            "language to en"
        )
    split: Split = get_tokenizer("basic_english")
    return split


def _spacy(language: str) -> Split:
    pipeline = "en_core_web_sm" if language == "en" else f"{language}_core_news_sm"
    advice = f"run: pip install spacy && python -m spacy download {pipeline}"
    if importlib.util.find_spec("spacy") is None:
        raise ValueError(f"word tokenizer spacy needs the package spacy and {pipeline}; {advice}")
    try:
        split: Split = get_tokenizer("spacy", language=pipeline)
    except OSError as error:
        raise ValueError(f"word tokenizer spacy lacks its model {pipeline}; {advice}") from error
    return split


def _toktok(language: str) -> Split:
    if importlib.util.find_spec("nltk") is None:
        raise ValueError("word tokenizer toktok needs the package nltk; run: pip install nltk")
    split: Split = get_tokenizer("toktok", language=language)
    return split


_SPLITTERS: dict[str, Callable[[str], Split]] = {
    "basic_english": _basic_english,
    "moses": _moses,
    "spacy": _spacy,
    "toktok": _toktok,
}


@contextlib.contextmanager
def _torchtext_contained() -> Iterator[None]:
    """Restore the check of HTTPS certificates, which `Vectors` turns off for the process."""
    create_context = ssl._create_default_https_context
    # Only a terminal should show its progress bar.
    stream = sys.stderr if sys.stderr.isatty() else io.StringIO()
    try:
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        ssl._create_default_https_context = create_context
