"""What words take from torchtext and sacremoses: cutting lines, choosing words, reading vectors.

These packages take a good part of a second to load. So only this module imports them at its top,
and words.py imports this one within the functions that need it.
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
"""cuts a line into words"""
Join = Callable[[list[str]], str]
"""puts words together to a sentence"""


def splitter(tokenizer: str, *, language: str, lowercase: bool) -> Split:
    """Return the function that cuts a line into words, as torchtext's `get_tokenizer` names it."""
    if tokenizer not in _SPLITTERS:
        choices = ", ".join(sorted(_SPLITTERS))
        raise ValueError(f"unknown word tokenizer {tokenizer!r}; one of: {choices}")
    split = _SPLITTERS[tokenizer](language)

    def split_line(line: str) -> list[str]:
        words = split(line.lower() if lowercase else line)
        return [word for word in words if not word.isspace()]

    return split_line


def moses_joiner(language: str) -> Join:
    """Return the function that puts words together by the rules of Moses."""
    detokenizer = MosesDetokenizer(lang=language)

    def join(words: list[str]) -> str:
        sentence: str = detokenizer.detokenize(words, unescape=False)
        return sentence

    return join


def frequent_words(counts: Counter[str], *, most: int, min_frequency: int) -> list[str]:
    """Return the words that are frequent enough, `most` of them, the most frequent first."""
    vocabulary = Vocab(
        counts,
        max_size=most,
        min_freq=min_frequency,
        specials=list(SPECIAL_TOKENS),
    )
    words: list[str] = vocabulary.itos[len(SPECIAL_TOKENS) :]
    return words


def read_vectors(path: str) -> Vectors:
    """Read a GloVe or FastText text file."""
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


def _moses(language: str) -> Split:
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # Moses itself would go on with the rules of English
        raise ValueError(
            f"Moses has no rules for the language {language!r}, only for {', '.join(known)}; set "
            "data.source and data.target, or tokenizer.source_language and target_language"
        )
    # get_tokenizer("moses") knows English rules alone and writes "&apos;" for an apostrophe.
    split: Split = get_tokenizer(partial(MosesTokenizer(lang=language).tokenize, escape=False))
    return split


def _basic_english(language: str) -> Split:
    if language != "en":
        raise ValueError(f"word tokenizer basic_english is for en, not {language}; choose moses")
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
    """Undo what `Vectors` does to the process: it stops the checking of HTTPS certificates."""
    create_context = ssl._create_default_https_context
    # Its progress bar is for terminals alone.
    stream = sys.stderr if sys.stderr.isatty() else io.StringIO()
    try:
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        ssl._create_default_https_context = create_context
