"""Translate the lines of many requests in batches: one thread owns the models."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from seq2seq.search.config import DecodingConfig

_Result = TypeVar("_Result")
Translate = Callable[[list[str], DecodingConfig], Sequence[_Result]]
"""Function that translates lines together, such as a `Translator`."""


class FullError(Exception):
    """Too many lines wait; the client may send the request again."""


@dataclass(slots=True, eq=False)
class _Line(Generic[_Result]):
    text: str
    translate: Translate[_Result]
    decoding: DecodingConfig
    future: Future[_Result] = field(default_factory=Future)

    def joins(self, other: "_Line[_Result]") -> bool:
        """Return whether both lines can be translated together."""
        return self.translate is other.translate and self.decoding == other.decoding


class Batcher(Generic[_Result]):
    """Translates the waiting lines in batches, in a thread of its own.

    The line that has waited longest is translated next, together with other lines that wait for the
    same model and search. If a batch fails, each of its lines is translated alone, so that one line
    never fails another request.

    Args:
        batch_size: Maximum number of lines translated together.
        batch_characters: Maximum number of characters translated together; a longer line is
            translated alone.
        max_waiting: Maximum number of lines that wait; more are refused.

    Example:
        >>> from seq2seq.search.config import GreedyConfig
        >>> def shout(lines, decoding):
        ...     return [line.upper() for line in lines]
        >>> with Batcher() as batcher:
        ...     futures = batcher.submit(shout, ["ja", "nein"], GreedyConfig())
        >>> [future.result() for future in futures]
        ['JA', 'NEIN']
    """

    def __init__(
        self, *, batch_size: int = 32, batch_characters: int = 5000, max_waiting: int = 1024
    ) -> None:
        self._batch_size = batch_size
        self._batch_characters = batch_characters
        self._max_waiting = max_waiting
        self._waiting: deque[_Line[_Result]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Batcher[_Result]":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def submit(
        self, translate: Translate[_Result], lines: Sequence[str], decoding: DecodingConfig
    ) -> list[Future[_Result]]:
        """Ask for the translations of lines.

        Args:
            translate: Called in the thread of the batcher; requests of the same function share
                batches.
            lines: Lines of one request.
            decoding: Lines are translated together if they have equal configurations.

        Returns:
            A future for each line. A line that waits is dropped if its future is cancelled.

        Raises:
            FullError: More than `max_waiting` lines would wait.
        """
        added = [_Line(line, translate, decoding) for line in lines]
        with self._changed:
            self.check_room(len(added))
            self._waiting.extend(added)
            self._changed.notify()
        return [line.future for line in added]

    def check_room(self, num_lines: int = 1) -> None:
        """Raise FullError if more than `max_waiting` lines would wait with some more lines."""
        with self._changed:
            if len(self._waiting) + num_lines > self._max_waiting:
                dropped = (line for line in self._waiting if not line.future.cancelled())
                self._waiting = deque(dropped)
            if len(self._waiting) + num_lines > self._max_waiting:
                raise FullError

    def close(self) -> None:
        """Translate the lines that wait, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                batch = self._take_batch()
            _translate_batch(batch)
            del batch  # else an old model stays in memory until the next request

    def _take_batch(self) -> list[_Line[_Result]]:
        """Take the first line and those that can be translated with it."""
        first = self._waiting[0]
        room = max(self._batch_characters, len(first.text))
        batch: list[_Line[_Result]] = []
        others: deque[_Line[_Result]] = deque()
        for line in self._waiting:
            if len(batch) == self._batch_size or len(line.text) > room or not line.joins(first):
                others.append(line)
            elif line.future.set_running_or_notify_cancel():
                batch.append(line)
                room -= len(line.text)
        self._waiting = others
        return batch


def _translate_batch(batch: list[_Line[_Result]]) -> None:
    """Translate lines together or, if that fails, each line alone."""
    if not batch:  # all lines were cancelled
        return
    translate, decoding = batch[0].translate, batch[0].decoding
    try:
        translations = translate([line.text for line in batch], decoding)
        answered = list(zip(batch, translations, strict=True))
    except BaseException as error:  # also a panic of Rust, which is no Exception
        if len(batch) > 1:
            for line in batch:
                _translate_batch([line])
        else:
            reason = error if isinstance(error, Exception) else RuntimeError(repr(error))
            batch[0].future.set_exception(reason)
    else:
        for line, translation in answered:
            line.future.set_result(translation)
