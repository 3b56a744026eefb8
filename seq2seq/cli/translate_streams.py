"""The streams of translate.py: its input lines, the lines it writes, and its progress."""

import contextlib
import importlib
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import NoReturn

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.checks import counted
from seq2seq.cli.translate_config import OutputFormat, TranslateConfig, shown
from seq2seq.files.paths import expand_home
from seq2seq.files.text import (
    CHUNK,
    LineReader,
    is_gzip,
    open_lines,
    open_standard_input,
    open_text,
    parallel,
)
from seq2seq.inference.results import Translation

logger = logging.getLogger(__name__)

MANY = 100
"""Fewest sentences for which the speed is logged."""
_MARK = "> "
_BAR = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]"
_COUNT = "{desc} [{elapsed}]"  # if the size of the input is unknown


class Prompt:
    """The lines typed at a prompt, until end of file or an interrupt.

    If standard output is a terminal too and Python has readline, lines can be edited and earlier
    ones recalled.
    """

    name = "prompt"

    def __iter__(self) -> Iterator[str]:
        if isinstance(sys.stdin, io.TextIOWrapper):  # invalid bytes become U+FFFD, as in files
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        print("Type a sentence and Enter; Ctrl-D ends.", file=sys.stderr)
        # If standard output is a file, neither the prompt nor readline may write to it.
        edited = sys.stdout.isatty()
        if edited:
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")  # `input` uses it once it is imported
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
    """All inputs, one after another, and the prefixes or references parallel to them."""

    def __init__(
        self,
        sources: Sequence[LineReader | Prompt],
        companions: Sequence[LineReader],
        *,
        first: int = 0,
        stop: int | None = None,
    ) -> None:
        """Join the inputs.

        Args:
            sources: Inputs to translate.
            companions: A file of prefixes or references for each input, or none at all.
            first: Lines to leave out at the start; 0, unless there is one input.
            stop: Index behind the last line to translate; None: all.
        """
        self._sources = sources
        self._companions = companions
        self.first = first
        self.stop = stop
        self._num_read = [first] * len(sources)

    def skip(self, num_lines: int) -> None:
        """Begin some lines later."""
        self.first += num_lines
        self._num_read = [self.first]

    def windows(self, size: int) -> Iterator[list[tuple[str, str]]]:
        """Yield lines of an input that are available together, each with its prefix or reference.

        A window ends after `size` lines, where the next line has not arrived yet, and at the end
        of its input. Without companions, the second text of each pair is empty. An input without
        lines is named in a warning.

        Raises:
            ValueError: An input and its companion do not have equally many lines.
        """
        for index, source in enumerate(self._sources):
            pairs: Iterator[tuple[str, str]] = ((line, "") for line in source)
            if self._companions:
                other = self._companions[index]
                pairs = parallel(source, other, names=(source.name, other.name))
            window = []
            for pair in islice(pairs, self.first, self.stop):
                self._num_read[index] += 1
                window.append(pair)
                if len(window) == size or not source.has_more():
                    yield window
                    window = []
            if window:  # more lines follow, which are not to be translated
                yield window
            is_wanted = self.stop != 0 and not isinstance(source, Prompt)
            if is_wanted and not self._num_read[index]:
                logger.warning("%s has no lines, so there is nothing to translate", source.name)

    def find_line(self, index: int) -> tuple[int, int]:
        """Return the index of the input and of the line in it, given the index among all lines.

        All indices count from 0; the line was read.
        """
        for source, num_read in enumerate(self._num_read):
            if index < num_read:
                return source, index
            index -= num_read
        raise IndexError("this line was not read yet")

    def line_name(self, index: int) -> str:
        """Return file and line of a line: `input=a.de:3`."""
        source, line = self.find_line(index)
        return f"{self._sources[source].name}:{line + 1}"

    def companion_name(self, index: int) -> str:
        """Return file and line of the companion of a line: `prefixes=a.en:3`."""
        source, line = self.find_line(index)
        return f"{self._companions[source].name}:{line + 1}"


def open_inputs(config: TranslateConfig, stack: ExitStack) -> Inputs:
    """Open the inputs and the files parallel to them; the stack closes them.

    Raises:
        ValueError: An input is damaged, or prefixes or references are given at a prompt.
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
    key = "reference" if config.prefixes is None else "prefixes"
    paths = config.prefixes or config.reference or []
    if paths and is_prompt(config):
        raise ValueError(
            f"{key}={shown(paths)} cannot be used at a prompt; give input=FILE, a file parallel "
            f"to {key}"
        )
    companions = [stack.enter_context(open_lines(path, key=key)) for path in paths]
    first, stop = _lines_of_shard(config)
    return Inputs(sources, companions, first=first, stop=stop)


def _lines_of_shard(config: TranslateConfig) -> tuple[int, int | None]:
    """Return the first line to translate and the one behind the last; None: to the end.

    The parts of an input differ by at most one line.
    """
    part, number = config.parts()
    if number == 1:
        return 0, None
    assert config.input is not None, "checked by the configuration"
    [name] = config.input
    path = expand_home(name, key="input")
    if not path.is_file():
        raise ValueError(f"input={name} is read twice with shard={config.shard}; give a file")
    with open_text(path) as file:
        num_lines, last = 0, b"\n"
        while chunk := file.read(CHUNK):  # a line may be longer than the memory
            num_lines, last = num_lines + chunk.count(b"\n"), chunk
    num_lines += not last.endswith(b"\n")
    # The last part has no end, so that a longer file of prefixes is found out.
    stop = None if part == number else part * num_lines // number
    return (part - 1) * num_lines // number, stop


def is_prompt(config: TranslateConfig) -> bool:
    """Return whether sentences are typed at a prompt."""
    is_read = config.text is None and config.input is None and sys.stdin is not None  # closed
    return is_read and sys.stdin.isatty()


def format_translation(config: TranslateConfig, translation: Translation, *, index: int) -> bytes:
    """Return the output for the input line `index`, as UTF-8 lines.

    As text, a scored reference is its log-probability.
    """
    if config.output_format is OutputFormat.json:
        lines = [_json(translation)]
    elif config.output_format is OutputFormat.nbest:
        found = translation.hypotheses
        lines = [f"{index} ||| {each.text} ||| {each.score:.6f}" for each in found]
    elif config.reference is not None:
        lines = [f"{translation.best.log_probability:.4f}"]
    else:
        lines = [translation.text]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace")


def _json(translation: Translation) -> str:
    hypotheses = [
        {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "finished": found.finished,
            "tokens": found.tokens,
            "token_log_probabilities": [round(value, 6) for value in found.token_log_probabilities],
            # (heads, target tokens, source tokens)
            "attention": [
                [[round(weight, 6) for weight in row] for row in head]
                for head in found.attention_weights.tolist()
            ],
        }
        for found in translation.hypotheses
    ]
    content = {
        "source": translation.source,
        "source_tokens": translation.source_tokens,
        "unknown_tokens": translation.num_unknown_tokens,
        "hypotheses": hypotheses,
    }
    return json.dumps(content, ensure_ascii=False)


class TranslationProgress:
    """Counts sentences and measures the time since its construction."""

    def __init__(self, bar: "tqdm[NoReturn]") -> None:
        self._bar = bar
        self._num_sentences = 0
        self._start = time.perf_counter()

    def advance(self, translation: Translation) -> None:
        """Count a translation."""
        self._num_sentences += 1
        count, _, rate = self._figures()
        self._bar.set_description_str(f"{count}, {rate}", refresh=False)
        self._bar.update(len(translation.source.encode(errors="replace")) + 1)

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
def open_progress(
    config: TranslateConfig, *, first: int = 0, stop: int | None = None
) -> Iterator[TranslationProgress]:
    """Show a bar during the block, if the configuration asks for one.

    Args:
        config: Names the inputs, whose size is known if all are plain files.
        first: Lines of a single input that are left out at its start.
        stop: Index behind the last line to translate; None: all.
    """
    files = [expand_home(path, key="input") for path in config.input or ()]
    is_known = bool(files) and all(file.is_file() and not is_gzip(file) for file in files)
    total = sum(file.stat().st_size for file in files) if is_known else None
    is_shown = _shows_bar(config)
    if is_shown and is_known and (first or stop is not None):
        with open_text(files[0]) as lines:
            total = sum(map(len, islice(lines, first, stop)))
    tqdm.set_lock(threading.RLock())  # its own lock would start a process to look after it
    with (
        logging_redirect_tqdm() if is_shown else contextlib.nullcontext(),
        tqdm(
            total=total,
            bar_format=_BAR if is_known else _COUNT,
            disable=not is_shown,
            file=sys.stderr,
            smoothing=0,  # windows begin with short sentences, so the speed swings
        ) as bar,
    ):
        yield TranslationProgress(bar)


def _shows_bar(config: TranslateConfig) -> bool:
    if config.text is not None or is_prompt(config):
        return False
    if config.progress is not None:
        return config.progress
    # On one terminal the bar would mix with the translations.
    if sys.stderr is None or not sys.stderr.isatty():  # None: closed
        return False
    return config.output is not None or not sys.stdout.isatty()
