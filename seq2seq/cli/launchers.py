"""Jobs of a sweep that Hydra's launchers run in processes of their own."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextvars import ContextVar
from pathlib import Path

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from seq2seq.training.monitoring.log import labelled_lines

_BASIC, _JOBLIB, _SUBMITIT_LOCAL = "basic", "joblib", "submitit_local"
_POLL_SECONDS = 1.0
_SWEEP: ContextVar[Path | None] = ContextVar("sweep", default=None)
"""Directory of the sweep that this process runs, if it runs one."""


def prepare_launcher(config: DictConfig) -> None:
    """Prepare the process of a sweep, before its launcher starts jobs.

    submitit_local starts all jobs at once, so each gets one thread; joblib itself divides the cores
    among its jobs. OMP_NUM_THREADS in the environment takes precedence.
    """
    launcher, sweep = _name(config.hydra), Path(str(config.hydra.sweep.dir))
    _SWEEP.set(sweep)
    if launcher == _SUBMITIT_LOCAL:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    if launcher.startswith("submitit"):
        print(f"{launcher}: the jobs log to {sweep / '.submitit'}/", file=sys.stderr)


@contextlib.contextmanager
def launched_job(name: str) -> Iterator[None]:
    """Run one job of the sweep that Hydra describes.

    With a launcher other than Hydra's own, jobs run at the same time: every line on the console
    begins with the name of the run. A job of joblib stops as at SIGTERM if the sweep is killed.
    """
    launcher = _name(HydraConfig.get())
    with contextlib.ExitStack() as stack:
        if launcher != _BASIC:
            stack.enter_context(labelled_lines(name))
        if launcher == _JOBLIB:
            stack.enter_context(_stopping_with_parent())
        yield


@contextlib.contextmanager
def _stopping_with_parent() -> Iterator[None]:
    """Stop the run as at SIGTERM when the parent of this process has ended, and then exit."""
    parent, has_ended = os.getppid(), threading.Event()

    def watch() -> None:
        while not has_ended.wait(_POLL_SECONDS):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)  # joblib's process would wait for its parent for ever


@contextlib.contextmanager
def stopped_sweeps_in_one_line() -> Iterator[None]:
    """Say how to continue a sweep at Ctrl-C, and if the process of a job ended without a result."""
    _SWEEP.set(None)
    try:
        yield
    except (KeyboardInterrupt, RuntimeError) as error:
        if (sweep := _SWEEP.get()) is None:
            raise
        code = 1
        again = f"repeat the command with hydra.sweep.dir={sweep} resume=auto"
        if isinstance(error, KeyboardInterrupt):
            line, code = f"stopped by Ctrl-C; to continue, {again}", 128 + signal.SIGINT
        elif isinstance(error, BrokenExecutor):  # joblib has ended the other processes too
            line = (
                f"error: the process of a job was killed, perhaps because memory ran out; {again}"
            )
        elif type(error).__module__.startswith("submitit."):
            line = (
                f"error: a job ended without a result, see {sweep / '.submitit'}/; others may "
                f"still run, and when they have ended, {again}"
            )
        else:
            raise
        print(line, file=sys.stderr)
        sys.exit(code)


def _name(hydra: HydraConf) -> str:
    return str(hydra.runtime.choices["hydra/launcher"])
