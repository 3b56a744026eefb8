"""What translate.py is told about words: forbidden ones, and what takes the place of unknown."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from seq2seq.cli.config import TranslateConfig, UnknownTokens
from seq2seq.files.lines import LineReader, open_lines
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.unknown_words import UnknownWords, read_dictionary


class WordRules(NamedTuple):
    """What holds for the words of all translations."""

    forbidden: Sequence[str]
    """phrases"""
    replace: Callable[[Translation], Translation]
    """puts words in the place of unknown tokens"""


@contextlib.contextmanager
def open_word_rules(config: TranslateConfig, translator: Translator) -> Iterator[WordRules]:
    """Read the files of words; at the end, log what was replaced.

    Raises:
        ValueError: a file holds something else, or the model has no attention to go by.
        OSError: a file cannot be read.
    """
    forbidden: list[str] = []
    if config.forbidden is not None:
        with open_lines(config.forbidden, key="forbidden") as lines:
            forbidden = list(_phrases(lines))
    if config.unknown_words is UnknownTokens.keep:
        yield WordRules(forbidden, lambda translation: translation)
        return
    unknown_words = UnknownWords(translator, dictionary=_read_dictionary(config))
    yield WordRules(forbidden, unknown_words.replace)
    unknown_words.report()


def _phrases(lines: LineReader) -> Iterator[str]:
    """Yield phrases, which are not empty."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ValueError(
                f"{lines.name}:{number}: no phrase stands here, and every translation holds "
                "nothing; remove the line"
            )
        yield line


def _read_dictionary(config: TranslateConfig) -> dict[str, str]:
    if config.dictionary is None:
        return {}
    with open_lines(config.dictionary, key="dictionary") as lines:
        return read_dictionary(lines, name=lines.name)
