"""Read the input of translate.py: files, standard input, one text or a prompt."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from seq2seq.cli.translation.config import TranslateConfig, shown
from seq2seq.cli.translation.prompt import Prompt
from seq2seq.files.lines import LineReader, open_lines, open_standard_input, parallel


class Lines(Protocol):
    """The lines of one input."""

    @property
    def name(self) -> str:
        """Return the name of the input, for messages."""

    def __iter__(self) -> Iterator[str]: ...

    def has_more(self) -> bool:
        """Return whether another line is available without waiting."""


class Inputs:
    """All inputs, one after another, and the prefixes or references parallel to them."""

    def __init__(self, sources: Sequence[Lines], companions: Sequence[LineReader]) -> None:
        """Join the inputs.

        Args:
            sources: Inputs to translate.
            companions: A file of prefixes or references for each input, or none at all.
        """
        self._sources = sources
        self._companions = companions
        self._num_read = [0] * len(sources)

    def windows(self, size: int) -> Iterator[list[tuple[str, str]]]:
        """Yield lines of an input that are available together, each with its prefix or reference.

        A window ends after `size` lines, where the next line has not arrived yet, and at the end
        of its input. Without companions, the second text of each pair is empty.

        Raises:
            ValueError: An input and its companion do not have equally many lines.
        """
        for index, source in enumerate(self._sources):
            window = []
            for pair in self._pairs(index):
                self._num_read[index] += 1
                window.append(pair)
                if len(window) == size or not source.has_more():
                    yield window
                    window = []

    def find_line(self, index: int) -> tuple[int, int]:
        """Return the index of the input and of the line in it, given the index among all lines.

        All indices count from 0; the line was read.
        """
        for source, num_read in enumerate(self._num_read):
            if index < num_read:
                return source, index
            index -= num_read
        raise IndexError("this line was not read yet")

    def companion_name(self, index: int) -> str:
        """Return file and line of the companion of a line: `prefixes=a.en:3`."""
        source, line = self.find_line(index)
        return f"{self._companions[source].name}:{line + 1}"

    def _pairs(self, index: int) -> Iterator[tuple[str, str]]:
        source = self._sources[index]
        if not self._companions:
            return ((line, "") for line in source)
        companion = self._companions[index]
        return parallel(source, companion, names=(source.name, companion.name))


@contextlib.contextmanager
def open_inputs(config: TranslateConfig) -> Iterator[Inputs]:
    """Open the inputs and the files parallel to them.

    Raises:
        ValueError: An input is damaged, or prefixes or references are given at a prompt.
        OSError: A file cannot be read.
    """
    with ExitStack() as stack:
        sources = _open_sources(config, stack)
        key = "reference" if config.prefixes is None else "prefixes"
        companions = [
            stack.enter_context(open_lines(path, key=key))
            for path in config.prefixes or config.reference or ()
        ]
        yield Inputs(sources, companions)


def is_prompt(config: TranslateConfig) -> bool:
    """Return whether sentences are typed at a prompt."""
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
                f"{key}={shown(paths)} cannot be used at a prompt; give input=FILE, a file "
                f"parallel to {key}"
            )
    return [Prompt()]
