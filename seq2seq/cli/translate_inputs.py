"""The inputs of translate.py: their lines, and the progress in translating them."""

import contextlib
import importlib
import io
import logging
import os
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NoReturn

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.checks import counted
from seq2seq.cli.translate_config import TranslateConfig
from seq2seq.files.paths import expand_home
from seq2seq.files.text import (
    LineReader,
    is_gzip,
    open_lines,
    open_standard_input,
    parallel,
)
from seq2seq.inference.translations import TranslatedSentence

logger = logging.getLogger(__name__)

MANY = 100
"""Minimum number of sentences for which the speed is logged."""
_MARK = "> "
_BAR = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]"
_COUNT = "{desc} [{elapsed}]"  # if the size of the input is unknown


class Prompt:
    """The lines typed at a prompt, until end of file or an interrupt.

    If standard output is also a terminal and Python has readline, lines can be edited and earlier
    lines recalled.
    """

    name = "prompt"

    def __iter__(self) -> Iterator[str]:
        if isinstance(sys.stdin, io.TextIOWrapper):  # invalid bytes become U+FFFD, as in files
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        print("Type a sentence and press Enter; Ctrl-D quits.", file=sys.stderr)
        # If standard output is a file, neither the prompt nor readline may write to it.
        edited = sys.stdout.isatty()
        if edited:
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")  # `input` then lets users edit
        while True:
            if not edited:
                print(_MARK, end="", file=sys.stderr, flush=True)
            try:
                yield input(_MARK if edited else "")
            except (EOFError, KeyboardInterrupt):
                print(file=sys.stderr)
                return

    def has_more(self) -> bool:
        """Return False, because each sentence is answered before the next one is typed."""
        return False


class Inputs:
    """Iterable over the lines of all inputs, each with its reference or an empty text.

    Args:
        sources: The inputs.
        references: File of references for each input, or no files.
    """

    def __init__(
        self, sources: Sequence[LineReader | Prompt], references: Sequence[LineReader] = ()
    ) -> None:
        self._sources = sources
        self._references = references
        self._starts: list[int] = []  # number of lines before each input that has begun

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the lines; an input without lines is named in a warning.

        Raises:
            ValueError: An input and its reference have different numbers of lines.
        """
        number = 0
        for index, source in enumerate(self._sources):
            self._starts.append(number)
            pairs: Iterator[tuple[str, str]] = ((line, "") for line in source)
            if self._references:
                reference = self._references[index]
                pairs = parallel(source, reference, names=(source.name, reference.name))
            for pair in pairs:
                number += 1
                yield pair
            if number == self._starts[-1] and not isinstance(source, Prompt):
                logger.warning("%s has no lines, so there is nothing to translate", source.name)

    def has_more(self) -> bool:
        """Return whether the next line of the current input is available without waiting."""
        return self._sources[len(self._starts) - 1].has_more()

    def place(self, index: int) -> tuple[int, int]:
        """Return the input that has line number `index` of all inputs, and the number of the line
        in that input; all numbers start at 0."""
        source = bisect_right(self._starts, index) - 1
        return source, index - self._starts[source]

    def line_name(self, index: int) -> str:
        """Return the number of a line, from 1, with its file if there are several inputs."""
        source, line = self.place(index)
        file = f"{self._sources[source].name}:" if len(self._sources) > 1 else ""
        return f"{file}{line + 1}"


def open_inputs(config: TranslateConfig, stack: ExitStack) -> Inputs:
    """Open the inputs and the files parallel to them; the stack closes them.

    Raises:
        ValueError: An input is damaged.
        OSError: A file cannot be read.
    """
    sources: list[LineReader | Prompt]
    if config.text is not None:
        sources = [LineReader(io.BytesIO(os.fsencode(config.text) + b"\n"), name="text")]
    elif config.input is not None:
        sources = [stack.enter_context(open_lines(path, key="input")) for path in config.input]
    elif is_prompt(config):
        sources = [Prompt()]
    else:
        sources = [stack.enter_context(open_standard_input())]
    paths = config.reference or []
    references = [stack.enter_context(open_lines(path, key="reference")) for path in paths]
    return Inputs(sources, references)


def is_prompt(config: TranslateConfig) -> bool:
    """Return whether sentences are typed at a prompt."""
    is_read = config.text is None and config.input is None
    is_open = sys.stdin is not None  # it is None if standard input is closed
    return is_read and is_open and sys.stdin.isatty()


class TranslationProgress:
    """Counts sentences and measures the time since its construction."""

    def __init__(self, bar: "tqdm[NoReturn]") -> None:
        self._bar = bar
        self._num_sentences = 0
        self._start = time.perf_counter()

    def advance(self, sentences: Sequence[TranslatedSentence]) -> None:
        """Count sentences that have been translated."""
        self._num_sentences += len(sentences)
        count, _, rate = self._figures()
        self._bar.set_description_str(f"{count}, {rate}", refresh=False)
        self._bar.update(sum(len(each.source.encode(errors="replace")) + 1 for each in sentences))

    def log_speed(self) -> None:
        """Log the speed in one line if there were many sentences."""
        self._bar.close()
        if self._num_sentences >= MANY:
            logger.info("%s in %s (%s)", *self._figures())

    def _figures(self) -> tuple[str, str, str]:
        seconds = time.perf_counter() - self._start
        rate = self._num_sentences / max(seconds, 1e-9)
        return (
            counted(self._num_sentences, "sentence"),
            f"{seconds:.1f} s",
            f"{rate:,.1f} sentences/s",
        )


@contextlib.contextmanager
def open_progress(config: TranslateConfig) -> Iterator[TranslationProgress]:
    """Show a progress bar if stderr is a terminal and the translations go elsewhere.

    Args:
        config: Names the inputs; their size is known if all are plain files.
    """
    files = [expand_home(path, key="input") for path in config.input or ()]
    is_known = bool(files) and all(file.is_file() and not is_gzip(file) for file in files)
    total = sum(file.stat().st_size for file in files) if is_known else None
    is_shown = _shows_bar(config)
    tqdm.set_lock(threading.RLock())  # tqdm's own lock would start an extra process
    with (
        logging_redirect_tqdm() if is_shown else contextlib.nullcontext(),
        tqdm(
            total=total,
            bar_format=_BAR if is_known else _COUNT,
            disable=not is_shown,
            file=sys.stderr,
            smoothing=0,  # windows begin with short sentences, so the speed varies
        ) as bar,
    ):
        yield TranslationProgress(bar)


def _shows_bar(config: TranslateConfig) -> bool:
    if config.text is not None or is_prompt(config):
        return False
    # On the same terminal, the bar would mix with the translations.
    return sys.stderr.isatty() and (config.output is not None or not sys.stdout.isatty())
