"""Show the progress of translate.py: a bar on stderr and, at the end, one line with the speed."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from seq2seq.cli.translation.config import TranslateConfig
from seq2seq.cli.translation.inputs import is_prompt
from seq2seq.files.paths import expand_home
from seq2seq.files.text import is_gzip
from seq2seq.inference.translation import Translation

logger = logging.getLogger(__name__)

MANY = 100
"""Fewest sentences for which the speed is logged."""
_BAR = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}<{remaining}]"
_COUNT = "{desc} [{elapsed}]"  # if the size of the input is unknown


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
        return f"{self._num_sentences:,} sentences", f"{seconds:.1f} s", f"{rate:,.1f} sentences/s"


@contextlib.contextmanager
def open_progress(config: TranslateConfig) -> Iterator[TranslationProgress]:
    """Show a bar during the block, if the configuration asks for one."""
    total = _num_bytes(config.input or ())
    with contextlib.ExitStack() as stack:
        shown = _shows_bar(config)
        if shown:
            stack.enter_context(logging_redirect_tqdm())  # keeps warnings out of the bar
        bar = tqdm(
            total=total,
            bar_format=_COUNT if total is None else _BAR,
            disable=not shown,
            file=sys.stderr,
        )
        yield TranslationProgress(stack.enter_context(bar))


def _shows_bar(config: TranslateConfig) -> bool:
    if config.text is not None or is_prompt(config):
        return False
    if config.progress is not None:
        return config.progress
    # On one terminal the bar would mix with the translations.
    if sys.stderr is None or not sys.stderr.isatty():  # None: closed
        return False
    return config.output is not None or not sys.stdout.isatty()


def _num_bytes(paths: Sequence[str]) -> int | None:
    """Return the total size, or None if an input is not a plain file."""
    files = [expand_home(path, key="input") for path in paths]
    if not files or any(is_gzip(file) or not file.is_file() for file in files):
        return None
    return sum(file.stat().st_size for file in files)
