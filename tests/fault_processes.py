"""Run commands in processes that share nothing but a server that has imported the package."""

import importlib
import itertools
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tiny_training import SMALL, corpus_overrides

TIMEOUT = 120
"""Seconds; no process of these tests runs longer."""
OVERRIDES = (
    "training.batching.size=2",
    "training.accumulation=2",
    "training.max_updates=18",
    "training.schedule.name=cosine",
    "training.teacher_forcing.end=0.4",
    "training.teacher_forcing.updates=15",
    "training.validation.every_updates=4",
    "training.validation.metric=loss",
    "training.validation.keep_best=2",
    "training.optimizer.learning_rate=0.02",
    "training.ema_decay=0.8",
    "model.dropout=0.2",
)
"""A run of 18 updates with 5 validations that writes every kind of file."""
PRELOADED = [
    "seq2seq.cli.train",
    "seq2seq.cli.translate",
    "seq2seq.training.curves",
    "sacrebleu.tokenizers.tokenizer_13a",
    "torch._dynamo",  # the first step of an optimizer imports it
    "hydra._internal.core_plugins.basic_launcher",
    "hydra._internal.core_plugins.basic_sweeper",
    "numpy.random",
    "fault_processes",
]

_servers = multiprocessing.get_context("forkserver")
_servers.set_forkserver_preload(PRELOADED)

Prepare = Callable[[], None]
"""Called in a new process before it trains."""


def arguments(corpus: Path, place: Path, *overrides: str) -> list[str]:
    """Return the arguments of a run that writes its cache and its directory into a place."""
    places = [f"data.cache_dir='{place}/cache'", f"checkpoint_dir='{place}/runs'", "run_name=tiny"]
    return [*corpus_overrides(corpus), *SMALL, *OVERRIDES, *places, *overrides]


def start_server() -> None:
    """Wait until the server has imported the package."""
    process = _servers.Process(target=os.getpid)
    process.start()
    assert finish(process) == 0


def start(
    given: Sequence[str], output: Path, prepare: Prepare | None = None, *, command: str = "train"
) -> ForkServerProcess:
    """Start a command with these arguments in a new process, whose output goes to a file."""
    process = _servers.Process(target=_run, args=(command, list(given), output, prepare))
    process.start()
    return process


def finish(process: ForkServerProcess) -> int:
    """Wait for the end of a process; return its exit code."""
    process.join(TIMEOUT)
    if process.is_alive():
        process.kill()
        process.join()
        raise TimeoutError("the process does not end")
    assert process.exitcode is not None
    return process.exitcode


def train(given: Sequence[str], output: Path, prepare: Prepare | None = None) -> int:
    """Train in a new process; return its exit code."""
    return finish(start(given, output, prepare))


def start_several(
    num_processes: int, given: Sequence[str], output: Path, prepare: Prepare | None = None
) -> list[ForkServerProcess]:
    """Start a run of several processes, with the environment that torchrun would give them.

    `prepare` is called in the first process, which writes the files.
    """
    if num_processes == 1:
        return [start(given, output, prepare)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [
        start(given, output, partial(_join, rank, num_processes, port, None if rank else prepare))
        for rank in range(num_processes)
    ]


def finish_several(processes: Sequence[ForkServerProcess]) -> int:
    """Wait for the end of a run; return the exit code of the first process that failed, or 0.

    The end of one that fails stops the others, as torchrun does: by SIGTERM, then by SIGKILL.
    """
    deadline = time.monotonic() + TIMEOUT
    while any(each.is_alive() for each in processes):
        failed = next((each.exitcode for each in processes if each.exitcode), 0)
        if failed:
            _stop(processes)
            return failed
        if time.monotonic() > deadline:
            _stop(processes)
            raise TimeoutError("the processes do not end")
        time.sleep(0.02)
    return next((each.exitcode for each in processes if each.exitcode), 0)


def _stop(processes: Sequence[ForkServerProcess]) -> None:
    for each in processes:
        each.terminate()
    for each in processes:
        each.join(10)
        each.kill()
        each.join()


def _join(rank: int, world_size: int, port: int, prepare: Prepare | None) -> None:
    """Give a process its rank, as torchrun does."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    if prepare is not None:
        prepare()


def kill_after(seconds: float, process: ForkServerProcess) -> None:
    """Kill a process at a moment, unless it has ended."""
    process.join(seconds)
    process.kill()
    process.join()


def count_changes(output: Path, place: Path) -> None:
    """Write a byte to a file at each change of a file below a place."""
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
    _watch(place, lambda event, path: os.write(descriptor, b"."))


def kill_at(number: int, place: Path) -> None:
    """Kill the process at its n-th change of a file below a place."""
    changes = itertools.count(1)

    def kill(event: str, path: str) -> None:
        if next(changes) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(place, kill)


def fail_at(number: int, error: int, place: Path) -> None:
    """Raise an error of the operating system at each change of a file from the n-th on."""
    changes = itertools.count(1)

    def fail(event: str, path: str) -> None:
        if event not in _DELETIONS and next(changes) >= number:
            raise OSError(error, os.strerror(error), path)

    _watch(place, fail)


def limit_file_size(size: int) -> None:
    """Let no file grow over a number of bytes, as a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


_DELETIONS = ("os.remove", "os.rmdir", "shutil.rmtree")


def _watch(place: Path, at_change: Callable[[str, str], object]) -> None:
    """Call a function with the event and the path of each change of a file below a place."""

    def hook(event: str, details: tuple[object, ...]) -> None:
        if _is_change(event, details) and str(details[0]).startswith(str(place)):
            at_change(event, str(details[0]))

    sys.addaudithook(hook)


def _is_change(event: str, details: tuple[object, ...]) -> bool:
    """Return whether an audit event is a change of a file, or an opening for one."""
    if event == "open":
        flags = details[2]
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
    return event in ("os.rename", "os.mkdir", *_DELETIONS)


def _run(command: str, given: list[str], output: Path, prepare: Prepare | None) -> None:
    main = importlib.import_module(f"seq2seq.cli.{command}").main
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.argv = [f"{command}.py", *given]
    if prepare is not None:
        prepare()
    main()
