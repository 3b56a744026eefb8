"""What translate.py reads: files, standard input, one text or what is typed at a prompt."""

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Protocol, TypeVar

from seq2seq.cli.config import TranslateConfig, shown
from seq2seq.cli.prompt import Prompt
from seq2seq.files.lines import LineReader, open_lines, open_standard_input, parallel

_Item = TypeVar("_Item")


class Lines(Protocol):
    """Lines of one input."""

    @property
    def name(self) -> str:
        """Say which input this is, for messages."""

    def __iter__(self) -> Iterator[str]: ...

    def has_more(self) -> bool:
        """Say whether there is another line that can be had without waiting."""


class Place(NamedTuple):
    """Where a line stands."""

    source: int
    """which of the inputs, from 0"""
    line: int
    """which of its lines, from 0"""


class Inputs:
    """All that is translated, one input after another, and the files that are parallel to it."""

    def __init__(self, sources: Sequence[Lines], companions: Sequence[LineReader]) -> None:
        """Join inputs; `companions`, references or prefixes, has one for each or is empty."""
        self._sources = sources
        self._companions = companions
        self._num_read = [0] * len(sources)
        self._current = sources[0]

    def lines(self) -> Iterator[str]:
        """Yield the lines of all inputs."""
        return self._join(self._sources)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of all inputs with those of their companions; raises as `parallel`."""
        return self._join(
            parallel(source, companion, names=(source.name, companion.name))
            for source, companion in zip(self._sources, self._companions, strict=True)
        )

    def has_more(self) -> bool:
        """Say whether this input has another line that can be had without waiting."""
        return self._current.has_more()

    def place(self, index: int) -> Place:
        """Return where a line stands that was read, of this index among those of all inputs."""
        for source, num_read in enumerate(self._num_read):
            if index < num_read:
                return Place(source, index)
            index -= num_read
        raise IndexError("this line was not read yet")

    def companion_name(self, index: int) -> str:
        """Name file and line of what belongs to the line of this index: `prefixes=a.en:3`."""
        source, line = self.place(index)
        return f"{self._companions[source].name}:{line + 1}"

    def _join(self, parts: Iterable[Iterable[_Item]]) -> Iterator[_Item]:
        """Yield the items of a part for each input, and count them."""
        for place, part in enumerate(parts):
            self._current = self._sources[place]
            for item in part:
                self._num_read[place] += 1
                yield item


@contextlib.contextmanager
def open_inputs(config: TranslateConfig) -> Iterator[Inputs]:
    """Open all that is read.

    Raises:
        ValueError: an input is damaged, or there is a reference but nothing it is parallel to.
        OSError: a file cannot be read.
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
