"""Translate in several processes of one machine, which share nothing but the windows."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from seq2seq.inference.results import Translation
from seq2seq.inference.translation import EncodedPair
from seq2seq.inference.translator import Translator

Search = Callable[[Translator, list[EncodedPair]], Iterable[Translation]]

_WINDOWS_EACH = 2
"""Windows that each process has: the one that it translates, and the next one."""
_translators: list[Translator] = []
"""The translator of this process, if `TranslatorProcesses` started it."""


class TranslatorProcesses:
    """Processes with a copy of a translator, as `open_processes` starts them."""

    def __init__(self, pool: ProcessPoolExecutor, *, number: int) -> None:
        self._pool = pool
        self._number = number

    def map(
        self, function: Search, windows: Iterator[list[EncodedPair]]
    ) -> Iterator[list[Translation]]:
        """Apply a function to a translator and each window, and yield the results in order.

        Args:
            function: Can be pickled.
            windows: Read two windows ahead for each process.
        """
        pending: deque[Future[list[Translation]]] = deque()
        for window in windows:
            pending.append(self._pool.submit(_search, function, window))
            while pending and (pending[0].done() or len(pending) >= _WINDOWS_EACH * self._number):
                yield _with_attention(pending.popleft().result(), torch.from_numpy)
        while pending:
            yield _with_attention(pending.popleft().result(), torch.from_numpy)


@contextlib.contextmanager
def open_processes(
    translator: Translator, *, number: int, prepare: Callable[[], None]
) -> Iterator[TranslatorProcesses]:
    """Start processes that each get a copy of a translator, and end them with the block.

    An error in the block, such as an interrupt, ends them at once, and so does the end of this
    process, by whatever cause.

    Args:
        translator: It is pickled.
        number: Number of processes.
        prepare: Called in each process before the translator is unpickled, to set its threads and
            to load plug-ins.

    Raises:
        ChildProcessError: A process has died.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        number,
        # A fork would copy the locks of torch's threads.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(prepare, pickle.dumps(translator)),
    )
    try:
        with _without_interrupts():
            for _ in range(number):  # a process is started where none is idle
                pool.submit(os.getpid)
        yield TranslatorProcesses(pool, number=number)
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                f"one of the processes={number} has died, as happens if memory runs out; use "
                "fewer processes or a smaller batch_size"
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let the processes that start ignore Ctrl-C, which a terminal sends to them too."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(prepare: Callable[[], None], pickled: bytes) -> None:
    """Begin a process: it ends with the one that started it, and keeps the translator."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()
    _translators.append(pickle.loads(pickled))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process that another one started"
    parent.join()
    os._exit(1)


def _search(function: Search, window: list[EncodedPair]) -> list[Translation]:
    [translator] = _translators
    return _with_attention(function(translator, window), torch.Tensor.numpy)


def _with_attention(
    translations: Iterable[Translation], convert: Callable[..., Any]
) -> list[Translation]:
    """Convert the attention weights; pickled tensors would need an open file each."""
    return [
        each._replace(
            hypotheses=[
                found._replace(attention_weights=convert(found.attention_weights))
                for found in each.hypotheses
            ]
        )
        for each in translations
    ]
