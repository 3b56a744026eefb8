"""Log a run: lines on the console and in train.log, and a progress bar."""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from seq2seq.files.atomic import create_file
from seq2seq.runtime.process import ConsoleFormatter
from seq2seq.training.progress import Progress
from seq2seq.training.validation import Evaluation

_LABEL: ContextVar[str] = ContextVar("label", default="")


@contextlib.contextmanager
def labelled_lines(label: str) -> Iterator[None]:
    """Begin every line on the console with a name, and show no progress bar.

    Several runs can then share a terminal.
    """
    token = _LABEL.set(label)
    try:
        yield
    finally:
        _LABEL.reset(token)


class RunLog:
    """A context that sends the package's log lines to stderr and, once opened, to a file.

    Lines from before `open` are kept for the file.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._memory = MemoryHandler(capacity=100_000, flushLevel=logging.CRITICAL + 1)
        self._handlers: list[logging.Handler] = [self._memory]
        self._level = logging.NOTSET
        if not quiet:
            self._handlers.append(_ConsoleHandler())

    def __enter__(self) -> "RunLog":
        # tqdm's own lock is one between processes; at a kill, Python warns that it leaked.
        tqdm.set_lock(threading.RLock())
        package = logging.getLogger("seq2seq")
        self._level = package.level
        package.setLevel(logging.INFO)
        for handler in self._handlers:
            package.addHandler(handler)
        return self

    def __exit__(self, *exception: object) -> None:
        package = logging.getLogger("seq2seq")
        package.setLevel(self._level)
        for handler in self._handlers:
            package.removeHandler(handler)
            handler.close()

    def open(self, path: Path) -> None:
        """Append all lines to a file, those from before this call first."""
        file = _FileHandler(path)
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._memory.setTarget(file)
        self._memory.flush()
        self._handlers = [file if each is self._memory else each for each in self._handlers]
        package = logging.getLogger("seq2seq")
        package.removeHandler(self._memory)
        self._memory.close()
        package.addHandler(file)


class _FileHandler(logging.Handler):
    """Appends lines to a file; an error ends the run, where logging's own prints a traceback."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = create_file(path, append=True)

    def emit(self, record: logging.LogRecord) -> None:
        self._file.write(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        self._file.flush()

    def close(self) -> None:
        super().close()
        self._file.close()


class _ConsoleHandler(logging.Handler):
    """Writes lines above a progress bar."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(ConsoleFormatter())
        self._label = _LABEL.get()  # read here, because lines may come from other threads

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if self._label:
            text = "\n".join(f"{self._label}: {line}".rstrip() for line in text.splitlines())
        tqdm.write(text, file=sys.stderr)


def progress_bar(percentage: float, *, quiet: bool) -> "tqdm[NoReturn]":
    """Return a bar on stderr that shows the used percentage of the budget and the remaining time.

    It is disabled if it is to be quiet, lines are labelled or stderr is no terminal.
    """
    return tqdm(
        total=100,
        initial=percentage,
        desc="training",
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}, {postfix}",
        disable=quiet or bool(_LABEL.get()) or not sys.stderr.isatty(),
        dynamic_ncols=True,
    )


def describe_validation(progress: Progress, evaluation: Evaluation) -> str:
    """Return one line with the progress of the run and the scores of a validation."""
    parts = [
        f"update {progress.update}",
        f"epoch {progress.epoch + progress.epoch_share:.1f}",
        f"{progress.seconds / 60:.1f} min",
        f"valid {evaluation}",
    ]
    if evaluation.alignment is not None:
        parts.append(f"AER {evaluation.alignment.error_rate:.3f}")
    return ", ".join(parts)
