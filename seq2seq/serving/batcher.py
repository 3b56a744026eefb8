"""Translate the requests of many threads in batches: one thread owns the model."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import cycle
from typing import Generic, TypeVar

from seq2seq.search.config import DecodingConfig

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
Translate = Callable[[list[str], DecodingConfig], Sequence[_Result]]
"""Function that translates lines together, such as a `Translator`."""


class RefusedError(Exception):
    """A request cannot be translated now; its client may send it again."""

    def __init__(self, status: int, reason: str) -> None:
        """Refuse a request with a status of HTTP."""
        super().__init__(reason)
        self.status = status


def overdue() -> RefusedError:
    """Return the error for a request that waited longer than it may."""
    return RefusedError(504, "the translation took too long")


def _ignore(num_lines: int, seconds: float) -> None:
    """Ignore a translated batch; the default of `on_batch`."""


@dataclass(slots=True, eq=False)
class _Request(Generic[_Result]):
    lines: Sequence[str]
    decoding: DecodingConfig
    translate: Translate[_Result]
    deadline: float
    future: Future[list[_Result]] = field(default_factory=Future)
    results: list[_Result] = field(default_factory=list)
    """Results of the first lines; lines are taken and translated in order."""
    num_taken: int = 0

    def joins(self, other: "_Request[_Result]") -> bool:
        """Return whether the lines of both requests can be translated together."""
        return self.translate is other.translate and self.decoding == other.decoding


_Row = tuple[_Request[_Result], int]


class Batcher(Generic[_Result]):
    """Translates the waiting lines in batches, in a thread of its own.

    A request that comes while nothing else waits is translated at once. The lines of several
    requests take turns, so that a long document does not delay a single sentence. If a batch
    fails, each of its lines is translated alone, so that one line never fails another request.

    Args:
        batch_size: Maximum number of lines translated together.
        max_waiting: Maximum number of lines that wait; more are refused.
        linger: After a batch of several requests, wait for as many new ones, up to this many
            seconds for each request: clients often send the next request at once.
        on_batch: Called with the number of lines and the seconds of each batch; its errors are
            logged.

    Example:
        >>> from seq2seq.search.config import GreedyConfig
        >>> def shout(lines, decoding):
        ...     return [line.upper() for line in lines]
        >>> with Batcher() as batcher:
        ...     future = batcher.submit(shout, ["ja", "nein"], GreedyConfig())
        >>> future.result()
        ['JA', 'NEIN']
    """

    def __init__(
        self,
        *,
        batch_size: int = 32,
        max_waiting: int = 1024,
        linger: float = 0.002,
        on_batch: Callable[[int, float], None] = _ignore,
    ) -> None:
        self.max_waiting = max_waiting
        self._batch_size = batch_size
        self._linger = linger
        self._on_batch = on_batch
        self._requests: deque[_Request[_Result]] = deque()
        self._num_waiting = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._open_until, self._num_expected = -math.inf, 0
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Batcher[_Result]":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def num_waiting(self) -> int:
        """Return the number of lines that wait."""
        return self._num_waiting

    @property
    def is_full(self) -> bool:
        """Return whether another line would be refused because too many lines wait."""
        with self._changed:
            return not self._has_room(1)

    @property
    def is_working(self) -> bool:
        """Return whether requests are accepted."""
        return self._thread.is_alive() and not self._is_closed

    def submit(
        self,
        translate: Translate[_Result],
        lines: Sequence[str],
        decoding: DecodingConfig,
        *,
        timeout: float = math.inf,
    ) -> Future[list[_Result]]:
        """Ask for the translations of lines.

        Args:
            translate: Called in the thread of the batcher; requests of the same function share
                batches.
            lines: Lines of one request.
            decoding: Lines are translated together if they have equal configurations.
            timeout: Seconds after which lines that still wait are not translated.

        Returns:
            A future with one result for each line. Cancelling it drops the lines that still wait.

        Raises:
            RefusedError: More than `max_waiting` lines would wait, or the batcher is closed.
        """
        with self._changed:
            if not self.is_working:
                raise RefusedError(503, "the service is shutting down")
            if not self._has_room(len(lines)):
                raise RefusedError(503, "too many requests wait")
            request = _Request(lines, decoding, translate, time.monotonic() + timeout)
            if lines:
                self._requests.append(request)
                self._num_waiting += len(lines)
                self._changed.notify()
            else:
                request.future.set_result([])
        return request.future

    def close(self) -> None:
        """Accept no more requests, translate those that wait, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            begin = time.monotonic()
            try:
                self._translate_rows(batch)
            except BaseException:  # also a panic of Rust, which is no Exception
                for row in batch:
                    self._translate_alone(row)
            end = time.monotonic()
            try:
                self._on_batch(len(batch), end - begin)
            except Exception:  # the thread must survive, or nothing is translated
                logger.exception("a batch was translated, but on_batch failed")
            num_answered = len({id(request) for request, _ in batch if request.future.done()})
            with self._changed:
                is_open = num_answered > 1
                self._open_until = end + self._linger * num_answered if is_open else -math.inf
                self._num_expected = min(self._batch_size, self._num_expected + num_answered)
            batch.clear()  # else an old model stays in memory until the next request

    def _next_batch(self) -> list[_Row[_Result]]:
        """Wait for requests and take lines from them; no line means that no more will come."""
        with self._changed:
            while self._requests or not self._is_closed:
                self._changed.wait_for(lambda: self._requests or self._is_closed)
                self._changed.wait_for(
                    lambda: self._num_waiting >= self._num_expected or self._is_closed,
                    timeout=self._open_until - time.monotonic(),
                )
                self._drop_unwanted()
                if self._requests:
                    return self._take_lines()
        return []

    def _take_lines(self) -> list[_Row[_Result]]:
        """Take lines, in turns, from the requests that can be translated with the first request."""
        first = self._requests[0]
        turns = [request for request in self._requests if request.joins(first)]
        size = min(self._batch_size, sum(len(each.lines) - each.num_taken for each in turns))
        batch: list[_Row[_Result]] = []
        for request in cycle(turns):
            if len(batch) == size:
                break
            if request.num_taken < len(request.lines):
                batch.append((request, request.num_taken))
                request.num_taken += 1
        self._num_waiting -= size
        self._requests.rotate(-1)  # requests with other configurations get their turn
        self._requests = deque(each for each in self._requests if each.num_taken < len(each.lines))
        return batch

    def _has_room(self, num_lines: int) -> bool:
        if self._num_waiting + num_lines > self.max_waiting:
            self._drop_done()  # otherwise dropped requests would count until the batch ends
        return self._num_waiting + num_lines <= self.max_waiting

    def _drop_unwanted(self) -> None:
        """Forget the requests that were cancelled or have waited too long."""
        now = time.monotonic()
        # A copy, because a callback of a failing future may submit another request.
        for request in list(self._requests):
            if request.deadline <= now and not request.future.done():
                _fail(request, overdue())
        self._drop_done()

    def _drop_done(self) -> None:
        """Forget the requests that were cancelled, or that have a failed line."""
        self._requests = deque(each for each in self._requests if not each.future.done())
        self._num_waiting = sum(len(each.lines) - each.num_taken for each in self._requests)

    def _translate_rows(self, batch: list[_Row[_Result]]) -> None:
        request = batch[0][0]
        lines = [request.lines[index] for request, index in batch]
        found = request.translate(lines, request.decoding)
        self._num_expected = self._num_waiting  # read before the clients send new requests
        for (request, _), result in list(zip(batch, found, strict=True)):
            request.results.append(result)
        for request in {id(request): request for request, _ in batch}.values():
            is_complete = len(request.results) == len(request.lines)
            if is_complete and request.future.set_running_or_notify_cancel():
                request.future.set_result(request.results)

    def _translate_alone(self, row: _Row[_Result]) -> None:
        request, _ = row
        if not request.future.done():
            try:
                self._translate_rows([row])
            except BaseException as error:
                _fail(request, error if isinstance(error, Exception) else RuntimeError(repr(error)))


def _fail(request: _Request[_Result], error: Exception) -> None:
    if request.future.set_running_or_notify_cancel():
        request.future.set_exception(error)
