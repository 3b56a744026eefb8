"""Ctrl-C and SIGTERM ask a training to stop at the end of its update."""

import signal
from types import FrameType, TracebackType


class Interrupted(Exception):  # noqa: N818 -- the training did not fail
    """A training stopped because it was asked to, and can be resumed."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """Return what a shell expects of a process that a signal ended."""
        return 128 + self.signal_number


class StopSignals:
    """Within this context the first SIGINT or SIGTERM is noted; a second one acts at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
