"""Show a run: lines on the console and in train.log, and its progress."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from logging.handlers import MemoryHandler
from pathlib import Path

from tqdm import tqdm

from seq2seq.config.schema import TrainingConfig
from seq2seq.files.atomic import create_file
from seq2seq.runtime.process import ConsoleFormatter, VisibleFormatter, open_closed_stderr
from seq2seq.training.progress import Interval, Progress, UpdateResult

logger = logging.getLogger(__name__)

BAR_SECONDS, LINE_SECONDS = 2.0, 30.0
"""Seconds between two updates of the bar, and between two lines of the log."""
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
        if not quiet:
            self._handlers.append(_ConsoleHandler())
        self._package = logging.getLogger("seq2seq")
        self._level = self._package.level

    def __enter__(self) -> "RunLog":
        open_closed_stderr()  # a program of the user may have closed it
        # tqdm's own lock is shared between processes; if this process is killed, Python warns of a
        # leak.
        tqdm.set_lock(threading.RLock())
        self._package.setLevel(logging.INFO)
        for handler in self._handlers:
            self._package.addHandler(handler)
        return self

    def __exit__(self, *exception: object) -> None:
        self._package.setLevel(self._level)
        with contextlib.ExitStack() as stack:  # on a full disk, closing a file fails too
            for handler in reversed(self._handlers):
                self._package.removeHandler(handler)
                stack.callback(handler.close)

    def open(self, path: Path) -> None:
        """Append all lines to a file, first the lines from before this call."""
        file = _FileHandler(path)
        file.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(message)s"))
        self._handlers.append(file)  # closed last: the memory handler passes its lines on
        self._memory.setTarget(file)
        self._memory.flush()
        self._memory.capacity = 1


class _FileHandler(logging.Handler):
    """Appends lines to a file; an error ends the run, instead of only printing a traceback."""

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
    """Writes lines above the progress bar."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(ConsoleFormatter())
        self._label = _LABEL.get()  # read here, because lines may come from other threads

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if self._label:
            text = "\n".join(f"{self._label}: {line}".rstrip() for line in text.splitlines())
        with contextlib.suppress(OSError):  # the terminal or the reader of a pipe has gone
            tqdm.write(text, file=sys.stderr)


class ProgressDisplay:
    """Shows the progress of a run and the time left, in a bar or, without a terminal, in lines."""

    def __init__(self, config: TrainingConfig, progress: Progress, *, quiet: bool) -> None:
        """Start from the progress of a new or resumed run; a quiet display shows nothing."""
        self._config = config
        self._is_quiet = quiet
        self._began_share = progress.share(config)
        self._bar = tqdm(
            total=100,
            initial=100 * self._began_share,
            desc="training",
            bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}",
            disable=quiet or bool(_LABEL.get()) or not sys.stderr.isatty(),
            dynamic_ncols=True,
        )
        self._began_at = self._shown_at = time.monotonic()
        self._interval = Interval()

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._bar.close()

    def update(self, progress: Progress, result: UpdateResult) -> None:
        """Show the progress after an update, if it is time to."""
        self._interval.add(result)
        seconds = LINE_SECONDS if self._bar.disable else BAR_SECONDS
        now = time.monotonic()
        if not self._is_quiet and now - self._shown_at >= seconds:
            self._show(progress, now)

    def _show(self, progress: Progress, now: float) -> None:
        """Show the progress, with the loss and the speed since the last time."""
        loss = self._interval.means()["loss"]
        speed = self._interval.target_tokens_per_second
        self._interval, self._shown_at = Interval(), now
        share = progress.share(self._config)
        self._bar.set_postfix_str(f"loss {loss:.3f}, {speed:.0f} tokens/s", refresh=False)
        with contextlib.suppress(OSError):
            self._bar.update(100 * share - self._bar.n)
        if self._bar.disable:
            finished = share - self._began_share
            left = (now - self._began_at) * (1 - share) / max(finished, 1e-9)
            logger.info(
                "training %.0f%%: update %d, epoch %.1f, loss %.3f, %.0f tokens/s, %s left",
                100 * share,
                progress.update,
                progress.epochs,
                loss,
                speed,
                describe_seconds(left),
            )


def describe_seconds(seconds: float) -> str:
    """Return a length of time in words, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"
