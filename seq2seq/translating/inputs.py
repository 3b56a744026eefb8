"""What translate.py reads: files, standard input, one text or what is typed at a prompt."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from seq2seq.translating.config import TranslateConfig, shown
from seq2seq.translating.lines import LineReader, open_lines, open_standard_input, parallel
from seq2seq.translating.prompt import Prompt


class Lines(Protocol):
    """Lines of one input."""

    @property
    def name(self) -> str:
        """Say which input this is, for messages."""

    def __iter__(self) -> Iterator[str]: ...

    def has_more(self) -> bool:
        """Say whether another line can be had without waiting."""


class Portion:
    """The inputs whose translations go to one output, one after another."""

    def __init__(self, sources: Sequence[Lines], references: Sequence[LineReader]) -> None:
        """Join inputs; `references` has one for each or is empty."""
        self._sources = sources
        self._references = references
        self._current = sources[0]

    def lines(self) -> Iterator[str]:
        """Yield the lines of all inputs."""
        for source in self._sources:
            self._current = source
            yield from source

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of all inputs with those of their references; raises as `parallel`."""
        for source, reference in zip(self._sources, self._references, strict=True):
            self._current = source
            yield from parallel(source, reference, names=(source.name, reference.name))

    def has_more(self) -> bool:
        """Say whether another line can be had without waiting."""
        return self._current.has_more()


@contextlib.contextmanager
def open_portions(config: TranslateConfig) -> Iterator[list[Portion]]:
    """Open all that is read, as one portion for each output.

    Raises:
        ValueError: an input is damaged, or there is a reference but nothing it is parallel to.
        OSError: a file cannot be read.
    """
    with ExitStack() as stack:
        sources = _open_sources(config, stack)
        key = "reference" if config.prefixes is None else "prefixes"
        references = [
            stack.enter_context(open_lines(path, key=key))
            for path in config.prefixes or config.reference or ()
        ]
        if len(config.output or ()) <= 1:
            yield [Portion(sources, references)]
            return
        yield [
            Portion([source], references[place : place + 1]) for place, source in enumerate(sources)
        ]


def is_prompt(config: TranslateConfig) -> bool:
    """Say whether sentences are typed."""
    return (
        config.text is None
        and config.input is None
        and sys.stdin is not None  # closed
        and sys.stdin.isatty()
    )


def _open_sources(config: TranslateConfig, stack: ExitStack) -> list[Lines]:
    if config.text is not None:
        return [LineReader(io.BytesIO(os.fsencode(config.text) + b"\n"), name="text")]
    if config.input is not None:
        return [stack.enter_context(open_lines(path, key="input")) for path in config.input]
    if not is_prompt(config):
        return [stack.enter_context(open_standard_input())]
    for key, paths in (("reference", config.reference), ("prefixes", config.prefixes)):
        if paths is not None:
            raise ValueError(
                f"{key}={shown(paths)} has no place at a prompt; give input=FILE, whose lines are "
                f"parallel to those of {key}"
            )
    return [Prompt()]
