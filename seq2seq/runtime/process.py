"""One process: its end at a signal or an error, its console lines, its threads and its memory."""

import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from seq2seq.checks import visible

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # parameters of mallopt(3)
_LARGEST = 32 << 20
"""Largest mmap threshold that glibc accepts, in bytes."""
_KEPT = (1 << 31) - 1
"""Number of freed bytes that the process keeps."""
_ONEDNN_CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256", "LRU_CACHE_CAPACITY": "16"}
"""Numbers of shapes for which oneDNN and torch keep a kernel; the defaults are 1,024."""
_PRECEDENCE = 1.0
"""Seconds that all processes but rank 0 wait before they report an error that all of them have. By
then, torchrun has ended the other processes on the machine."""
_TIME_OF_CAUSE = 10.0
"""Seconds to wait for a lost process to report the cause."""
_SHORTAGES = ("can't allocate memory", "could not create a primitive", "failed to map segment")
"""Parts of the error messages of torch, oneDNN and the loader when memory runs out."""
TOO_LARGE = (
    "the memory of this computer is too small, or limited by ulimit -v; end other programs, or "
    "lower the batch size or the size of the model"
)


_Handler = Callable[[int, FrameType | None], None] | signal.Handlers


class DeviceMemoryError(MemoryError):
    """A batch or a model does not fit into the memory of a GPU."""


def is_too_large(error: Exception) -> bool:
    """Return whether the memory of the computer, not of a GPU, was too small."""
    if isinstance(error, DeviceMemoryError):
        return False
    return isinstance(error, MemoryError) or any(each in str(error) for each in _SHORTAGES)


def is_first_process() -> bool:
    """Return whether this is the process that writes files; it needs no torch."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def interrupts_in_one_line() -> Iterator[None]:
    """At Ctrl-C, SIGTERM or SIGHUP, print one line to stderr and exit with the code that shells
    expect."""
    numbers = [signal.SIGTERM, *([] if os.name == "nt" else [signal.SIGHUP])]
    ours = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    if not _is_main_thread():
        ours = []
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    except KeyboardInterrupt:
        _end(signal.SIGINT)
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def imports_in_one_line(extra: str = "") -> Iterator[None]:
    """Import the modules of a command, which takes seconds; report a missing package, or too little
    memory, in one line.

    Args:
        extra: The extra of pyproject.toml that the command needs, if any.
    """
    open_closed_stderr()
    with interrupts_in_one_line():
        try:
            yield
        except (ImportError, MemoryError, OSError) as error:
            if is_too_large(error):
                text = TOO_LARGE
            elif isinstance(error, ModuleNotFoundError):
                # An environment may have the packages for only some of the commands.
                install = (
                    f"run pip install '.[{extra}]'" if extra else "install the program with pip"
                )
                way_out = f"activate the environment (source .venv/bin/activate) or {install}"
                text = f"this command needs the package {error.name}; {way_out}"
            else:
                raise
            print(f"error: {text}", file=sys.stderr)
            sys.exit(2)


def open_closed_stderr() -> None:
    """Discard messages if stderr is closed; `print` would write them to standard output."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 -- until the process ends


def _end(number: int, frame: FrameType | None = None) -> NoReturn:
    if is_first_process():
        print(f"stopped by {_name(number)}", file=sys.stderr)
    sys.exit(128 + number)


def _name(number: int) -> str:
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def _is_main_thread() -> bool:
    """Return whether this thread may set handlers; Python delivers signals to it only."""
    return threading.current_thread() is threading.main_thread()


class Interrupted(Exception):  # noqa: N818 -- the training did not fail
    """Training stopped because of a signal; the run can be resumed."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {_name(signal_number)}")
        self.signal_number = signal_number


class StopSignals:
    """A context that records the first SIGINT, SIGTERM or SIGHUP and says so; the second ends the
    process.

    Closing a terminal sends SIGHUP, often twice, so the second SIGHUP is ignored; `nohup` has the
    first one ignored. Python delivers signals to the main thread only; in another thread the
    context does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        if _is_main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._set(number, self._record)
            if os.name != "nt" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                self._set(signal.SIGHUP, self._record)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        if number not in (signal.SIGINT, signal.SIGTERM):
            self._set(number, signal.SIG_IGN)
        elif is_first_process():
            line = f"\n{_name(number)}: the run saves and stops after this batch; "
            # print would fail in the middle of another print
            with contextlib.suppress(OSError):  # stderr is closed
                os.write(2, f"{line}a second {_name(number)} stops it at once\n".encode())

    def _set(self, number: int, handler: _Handler) -> None:
        self._previous[number] = signal.signal(number, handler)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}


class LostProcessError(Exception):
    """Another process of the run has ended; that process knows the cause."""


@contextlib.contextmanager
def lost_processes_named() -> Iterator[None]:
    """Turn the error of an exchange with a process that has ended into LostProcessError."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise LostProcessError(f"another process of the run has ended: {reason}") from error


def with_process_name(text: str) -> str:
    """Prefix an error with the rank and host of this process, except on rank 0."""
    if is_first_process():
        return text
    return f"process {os.environ['RANK']} on {socket.gethostname()}: {text}"


def report_failure(text: str, *, is_consequence: bool) -> None:
    """Print the error that ends this process, unless torchrun ends the process before.

    The first process reports an error that all processes have. A process that failed by itself
    reports before the processes that lost contact with it.

    Args:
        text: The error in one line.
        is_consequence: Whether this process failed because another one ended.
    """
    if is_consequence:
        text += "; its own output, or the output of torchrun, says why"
        time.sleep(_TIME_OF_CAUSE)
    for number in ("RANK", "LOCAL_RANK"):
        if os.environ.get(number, "0") != "0":
            time.sleep(_PRECEDENCE)
    text = visible(with_process_name(text))
    print(f"error: {text}", file=sys.stderr)
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        # torchrun repeats the text when it ends; its own @record would write a traceback.
        content = {"message": text, "timestamp": int(time.time())}
        Path(path).write_text(json.dumps(content), encoding="utf-8")


class VisibleFormatter(logging.Formatter):
    """Formats a record without control characters; see `visible`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return visible(super().format(record))


class ConsoleFormatter(VisibleFormatter):
    """Formats a record as `message`, or from level WARNING on as `warning: message`.

    Args:
        has_times: Whether each line begins with its time.
    """

    def __init__(self, *, has_times: bool = False) -> None:
        text = "%(mark)s%(message)s"
        super().__init__(f"%(asctime)s {text}" if has_times else text, "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        is_warning = record.levelno >= logging.WARNING
        record.mark = f"{record.levelname.lower()}: " if is_warning else ""
        return super().format(record)


def log_to_stderr(*, has_times: bool = False) -> None:
    """Send all log lines from level INFO on to stderr, unless logging is set up already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ConsoleFormatter(has_times=has_times))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextlib.contextmanager
def equal_messages_once() -> Iterator[None]:
    """Log equal messages only once, for example if many models translate the same text."""
    seen = set[tuple[logging.Handler, str]]()
    with contextlib.ExitStack() as stack:
        for handler in logging.getLogger().handlers:

            def is_new(record: logging.LogRecord, handler: logging.Handler = handler) -> bool:
                known = len(seen)
                seen.add((handler, record.getMessage()))
                return len(seen) > known

            handler.addFilter(is_new)
            stack.callback(handler.removeFilter, is_new)
        yield


def keep_freed_memory() -> None:
    """Allocate tensors of up to 32 MB from memory that earlier tensors have freed.

    By default glibc returns every large block to the system, which clears its pages before they are
    used again; a training update uses a gigabyte of them. Other C libraries are not changed.

    The caches of oneDNN get smaller, because batches have many shapes, and the cached kernels lie
    between the freed blocks. This must be called before the first product; environment variables
    that are already set are kept.
    """
    for name, capacity in _ONEDNN_CACHES.items():
        os.environ.setdefault(name, capacity)
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_TOP_PAD, _LARGEST)
