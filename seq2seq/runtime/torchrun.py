"""Share texts between the processes of torchrun, even before and after they join a group."""

import contextlib
import itertools
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PRECEDENCE = 1.0
"""Seconds that the others wait, so that the first process reports an error that all have."""
_TIME_OF_CAUSE = 3.0
"""Seconds to wait for a lost process to report the cause."""
_TIMEOUT = timedelta(minutes=5)
"""Time to wait for a text of another process, which may still import torch."""

_POLL = 0.02
"""Seconds between two looks of the first process for the others."""

_reports, _runs = itertools.count(), itertools.count()


class LostProcessError(RuntimeError):
    """Another process of the run has ended; that process knows the cause."""


class Report(NamedTuple):
    """The error of a run, in one line."""

    text: str
    is_own: bool
    """Whether this process reports it; otherwise another one does."""


def is_first_process() -> bool:
    """Return whether this is the process that writes files; it needs no torch."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def lost_processes_named() -> Iterator[None]:
    """Turn the error of an exchange with a process that has ended into LostProcessError."""
    try:
        yield
    except LostProcessError:
        raise
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise LostProcessError(f"another process of the run has ended: {reason}") from error


def share_text(name: str, text: str) -> str:
    """Return the text of the first process in every process.

    Args:
        name: Name of the text, which no other text of this start of the processes has.
        text: The text that this process would use alone.

    Raises:
        ConnectionError: The store of the processes cannot be reached.
        LostProcessError: The first process has ended, or did not share a text in time.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return text
    with lost_processes_named():
        if is_first_process():
            _store().set(name, text)
            return text
        return _store().get(name).decode()


def check_all_can_start(failure: str) -> None:
    """Agree with the other processes whether all of them can begin the run; else none does.

    Args:
        failure: Why this process cannot begin; empty if it can.

    Raises:
        LostProcessError: Another process cannot begin.
    """
    if not _has_store():
        return
    with lost_processes_named():
        store, run = _store(), next(_runs)
        store.set(f"run-{run}/rank-{os.environ['RANK']}", failure)
        for rank in range(int(os.environ["WORLD_SIZE"])):
            if store.get(f"run-{run}/rank-{rank}") and not failure:
                raise LostProcessError(f"process {rank} cannot begin the run")


def report_failure(text: str, *, is_consequence: bool = False) -> Report:
    """Announce an error to the other processes that torchrun started.

    Args:
        text: The error in one line.
        is_consequence: Whether this process failed because another one ended.

    Returns:
        The error that was announced first.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return Report(text, True)
    if not is_first_process():
        text = f"process {os.environ['RANK']} on {socket.gethostname()}: {text}"
    if is_consequence:
        text += "; its own lines or those of torchrun say why"
        time.sleep(_TIME_OF_CAUSE)
    elif not is_first_process():
        time.sleep(_PRECEDENCE)
    # Every process reports each failed job of a sweep, so their counts are equal.
    key = f"failure-{next(_reports)}"
    found = text
    if _has_store():
        with contextlib.suppress(RuntimeError, ConnectionError):  # torchrun has ended
            found = _store().compare_set(key, "", text).decode()
    return Report(found, found == text)


def name_cause(text: str) -> None:
    """Let torchrun name an error, which ends this process, in its summary at the end."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        details = {"py_callstack": text, "timestamp": str(int(time.time()))}
        content = {"message": {"message": text, "extraInfo": details}}
        Path(path).write_text(json.dumps(content), encoding="utf-8")


def _has_store() -> bool:
    """Return whether torchrun keeps the store; any other ends with the first process."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _store() -> "Store":
    """Return the store of this start of the processes."""
    return connect("texts")


def connect(part: str) -> "Store":
    """Return a part of the store in which the processes of a run meet.

    torchrun's store outlives a restart, so keys need the name of the start that they belong to. Its
    count of restarts cannot be that name: with several machines, each counts its own failures.

    Raises:
        ConnectionError: The store cannot be reached.
        LostProcessError: The processes did not all begin in time.
    """
    from torch.distributed.distributed_c10d import PrefixStore

    found = _connect()
    if isinstance(found, Exception):
        if not _has_store():
            _connect.cache_clear()  # the caller may try again
        raise found
    store, start = found
    return PrefixStore(f"seq2seq/{start}/{part}", store)


@cache
def _connect() -> "tuple[Store, str] | Exception":
    """Return this process's store and the name of its start, or the error that prevents them.

    Both are kept, since a second store of the first process would need another port, and nobody
    should wait for the same processes twice.
    """
    from torch.distributed.constants import default_pg_timeout
    from torch.distributed.rendezvous import rendezvous

    timeout = _TIMEOUT if _has_store() else default_pg_timeout
    try:
        store, rank, world_size = next(rendezvous("env://", timeout=timeout))
    except RuntimeError as error:
        place = ":".join(os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
        reason = str(error).partition("\n")[0]
        return ConnectionError(f"the processes cannot meet at {place}: {reason}")
    try:
        with lost_processes_named():
            return store, agree_on_start(store, rank, world_size) if _has_store() else ""
    except LostProcessError as error:
        return error


def agree_on_start(store: "Store", rank: int, world_size: int) -> str:
    """Agree with the other processes on a name that no earlier start had.

    Every process writes a random name of its own under its rank. The first one answers each name
    that it finds with its own, until all have confirmed. It may answer a name that an earlier start
    left; nobody reads that answer, and the new process then writes its own name.

    Raises:
        LostProcessError: A process did not write its name in time.
    """
    own, prefix = uuid.uuid4().hex, "seq2seq/start"
    if rank:
        store.set(f"{prefix}/rank-{rank}", own)
        name = store.get(f"{prefix}/answer-{own}").decode()
        store.set(f"{prefix}/{name}/rank-{rank}", "")
        return name
    waiting, deadline = list(range(1, world_size)), time.monotonic() + _TIMEOUT.total_seconds()
    while waiting:
        if time.monotonic() > deadline:
            numbers = ", ".join(map(str, waiting))
            raise LostProcessError(f"no sign of process {numbers} within {_TIMEOUT}; start again")
        for other in waiting:
            name = store.get(f"{prefix}/rank-{other}").decode()
            store.set(f"{prefix}/answer-{name}", own)
        time.sleep(_POLL)
        waiting = [other for other in waiting if not store.check([f"{prefix}/{own}/rank-{other}"])]
    return own
