"""Share texts between the processes that torchrun started, also before and after they join."""

import itertools
import json
import os
import socket
import time
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import PrefixStore

_PRECEDENCE = 1.0
"""Seconds that the others wait, so that the first process reports an error that all have."""
_TIME_OF_CAUSE = 3.0
"""Seconds that a process waits until one that it lost has reported the cause."""
_TIMEOUT = timedelta(minutes=5)
"""Time to wait for a text of another process, which may still import torch."""

_reports = itertools.count()


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


def share_text(name: str, text: str) -> str:
    """Return the text of the first process, under torchrun, in every process."""
    if not _has_store():
        return text
    if is_first_process():
        _store().set(name, text)
        return text
    return _store().get(name).decode()


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
    return _announce(text)


def name_cause(text: str) -> None:
    """Let torchrun name an error, which ends this process, in its summary at the end."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        details = {"py_callstack": text, "timestamp": str(int(time.time()))}
        content = {"message": {"message": text, "extraInfo": details}}
        Path(path).write_text(json.dumps(content), encoding="utf-8")


def _announce(text: str) -> Report:
    """Store the error, unless another process has stored one."""
    # Every process reports each failed job of a sweep, so their counts are equal.
    key = f"failure-{next(_reports)}"
    if not _has_store():
        return Report(text, True)
    try:
        found = _store().compare_set(key, "", text).decode()
    except RuntimeError:  # torchrun has ended
        return Report(text, True)
    return Report(found, found == text)


def _has_store() -> bool:
    """Return whether torchrun keeps the store; any other ends with the first process."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


@cache
def _store() -> "PrefixStore":
    """Connect to the part of torchrun's store that belongs to this start of the processes."""
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://", timeout=_TIMEOUT))
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"seq2seq/restart-{restarts}", store)
