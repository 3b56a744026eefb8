"""Handle Ctrl-C and SIGTERM: end in one line, or stop training after the current update."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from seq2seq.runtime.torchrun import is_first_process


@contextlib.contextmanager
def interrupts_in_one_line() -> Iterator[None]:
    """Print one line to stderr at Ctrl-C and exit with the code that shells expect."""
    try:
        yield
    except KeyboardInterrupt:
        # print would turn to standard output if stderr is closed
        if sys.stderr is not None and is_first_process():
            print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


class Interrupted(Exception):  # noqa: N818 -- the training did not fail
    """Training stopped because of a signal; the run can be resumed."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """Return the exit code that shells expect of a process ended by this signal."""
        return 128 + self.signal_number


class StopSignals:
    """A context that records the first SIGINT or SIGTERM; the second one takes effect at once.

    Python delivers signals to the main thread only; in another thread the context does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        is_main = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM) if is_main else ():
            self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
