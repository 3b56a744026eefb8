"""Run commands in a process of torchrun, for test_processes.py.

The arguments are a file with a JSON list of steps. Each is a command of train.py, and what happens
in it: `kill` is a list of [restart, rank, update], in which the process kills itself. In the run of
the number `no_device` the second process finds no device, and in that of the number `full_disk` the
first one cannot write the results.
"""

import itertools
import json
import os
import signal
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hydra.core import utils as hydra_utils

from seq2seq.cli.train import main
from seq2seq.runtime.distributed import process_group
from seq2seq.runtime.process import is_first_process
from seq2seq.training import preparation, results, run
from seq2seq.training.updates import Updater
from seq2seq.training.validation import Evaluator

TIMES_OUT = 120


def run_steps(steps: list[dict]) -> list[int]:
    """Run the commands one after the other; return their exit codes."""
    codes = []
    for step in steps:
        # Every process waits for the first, which separates what the commands write to stderr.
        if is_first_process():
            print("next step", file=sys.stderr, flush=True)
        with process_group() as ranks:
            ranks.barrier()
        with pytest.MonkeyPatch.context() as patch:
            prepare(patch, step)
            patch.setattr(sys, "argv", ["train.py", *step["arguments"]])
            code = 0
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            codes.append(code)
    return codes


def prepare(patch: pytest.MonkeyPatch, step: dict) -> None:
    rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if rank == 1:  # the clocks of two machines differ
        patch.setattr(hydra_utils, "datetime", LateClock)
    if step.get("bad_data") and rank == 1:
        patch.setattr(preparation, "prepare_data", fail)
    if step.get("no_device") and rank == 1:
        error = ValueError("no device for the second process")
        patch.setattr(
            run, "choose_numerics", failing(run.choose_numerics, step["no_device"], error)
        )
    if step.get("full_disk") and rank == 0:
        full = OSError("the disk is full")
        patch.setattr(results, "_write", failing(results._write, step["full_disk"], full))
    original = Updater.update_weights

    def update_weights(self, batches, **keywords):
        if [restart, rank, keywords["update"]] in step.get("kill", []):
            os.kill(os.getpid(), signal.SIGKILL)
        if keywords["update"] == step.get("wait_at"):
            Path(f"waiting-{rank}").touch()
            time.sleep(0.5)
        return original(self, batches, **keywords)

    patch.setattr(Updater, "update_weights", update_weights)
    score, batches = Evaluator._read, itertools.count(1)

    def read(self, *arguments):
        if next(batches) == step.get("wait_in_batch"):
            Path(f"waiting-{rank}").touch()
            time.sleep(0.5)
        return score(self, *arguments)

    patch.setattr(Evaluator, "_read", read)


class LateClock(datetime):
    """A clock that is a minute late."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(minutes=1)


def failing(function, number: int, error: Exception):
    """Return a function whose n-th call raises the error."""
    calls = itertools.count(1)

    def replacement(*arguments, **keywords):
        if next(calls) == number:
            raise error
        return function(*arguments, **keywords)

    return replacement


def fail(*arguments: object) -> None:
    raise ValueError("the second process cannot read its data")


if __name__ == "__main__":
    signal.alarm(TIMES_OUT)
    found = run_steps(json.loads(Path(sys.argv[1]).read_text()))
    Path(f"codes-{os.environ['RANK']}.json").write_text(json.dumps(found))
    if len(found) == 1:
        sys.exit(found[0])
