"""Decide when last.pt is written between validations."""

import contextlib
import time
from collections.abc import Iterator

_LARGEST_SHARE = 0.01
"""Of the time of training, for saving between validations."""


class SaveClock:
    """Measures the time since the last save, and the time that it took."""

    def __init__(self, every_minutes: float | None) -> None:
        """Start the clock.

        Args:
            every_minutes: Minutes between saves; None: no save is due.
        """
        self._interval = None if every_minutes is None else 60 * every_minutes
        self._saved = time.monotonic()
        self._cost = 0.0

    def is_due(self) -> bool:
        """Return whether a save is due; a slow one is made less often, to cost 1% at most."""
        if self._interval is None:
            return False
        wait = max(self._interval, self._cost / _LARGEST_SHARE)
        return time.monotonic() - self._saved >= wait

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Measure a save in a context, and start anew."""
        started = time.monotonic()
        yield
        self._saved = time.monotonic()
        self._cost = self._saved - started
