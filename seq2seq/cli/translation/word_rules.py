"""Read the files about words: banned phrases and a dictionary for unknown words."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from seq2seq.cli.translation.config import TranslateConfig, UnknownTokens
from seq2seq.files.lines import LineReader, open_lines
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.unknown_words import UnknownWords, read_dictionary


class WordRules(NamedTuple):
    """Rules for the words of all translations."""

    banned_phrases: Sequence[str]
    replace: Callable[[Translation], Translation]
    """Replaces unknown tokens by words."""


@contextlib.contextmanager
def open_word_rules(config: TranslateConfig, translator: Translator) -> Iterator[WordRules]:
    """Read the files; after the block, log how many unknown words were replaced.

    Raises:
        ValueError: A line has a wrong format, or unknown words need a model with attention.
        OSError: A file cannot be read.
    """
    banned_phrases: list[str] = []
    if config.banned_phrases is not None:
        with open_lines(config.banned_phrases, key="banned_phrases") as lines:
            banned_phrases = list(_phrases(lines))
    if config.unknown_words is UnknownTokens.keep:
        yield WordRules(banned_phrases, lambda translation: translation)
        return
    unknown_words = UnknownWords(translator, dictionary=_read_dictionary(config))
    yield WordRules(banned_phrases, unknown_words.replace)
    unknown_words.report()


def _phrases(lines: LineReader) -> Iterator[str]:
    """Yield phrases; raise ValueError for an empty one."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ValueError(
                f"{lines.name}:{number}: the line is empty but must contain a phrase; remove it"
            )
        yield line


def _read_dictionary(config: TranslateConfig) -> dict[str, str]:
    if config.dictionary is None:
        return {}
    with open_lines(config.dictionary, key="dictionary") as lines:
        return read_dictionary(lines, name=lines.name)
