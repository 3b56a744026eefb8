"""Run commands in a process of torchrun, for test_processes.py.

The arguments are a file with a JSON list of steps. Each is a command of train.py, and what happens
in it: `kill` is [restart, rank, update], in which the process kills itself. In the run of
the number `no_device` the second process finds no device, and in that of the number `full_disk` the
first one cannot write the results.
"""

import json
import os
import signal
import sys
import time
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hydra.core import utils as hydra_utils
from same_run import act_in

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
        unreadable = partial(fail, "the second process cannot read its data")
        patch.setattr(preparation, "prepare_data", unreadable)
    if step.get("no_device") and rank == 1:
        lacking = partial(fail, "no device for the second process")
        act_in(patch, run, "choose_numerics", call=step["no_device"], action=lacking)
    if step.get("full_disk") and rank == 0:
        full = partial(fail, "the disk is full")
        act_in(patch, results, "_write", call=step["full_disk"], action=full)
    if "kill" in step and step["kill"][:2] == [restart, rank]:
        kill = partial(os.kill, os.getpid(), signal.SIGKILL)
        act_in(patch, Updater, "update_weights", call=step["kill"][2], action=kill)
    wait = partial(say_and_wait, Path(f"waiting-{rank}"))
    act_in(patch, Updater, "update_weights", call=step.get("wait_at", 0), action=wait)
    if "wait_in_batch" in step:  # a signal stops a validation between two batches
        patch.setitem(Evaluator.__init__.__kwdefaults__, "batch_size", 1)
    act_in(patch, Evaluator, "_read", call=step.get("wait_in_batch", 0), action=wait)


class LateClock(datetime):
    """A clock that is a minute late."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(minutes=1)


def say_and_wait(path: Path) -> None:
    path.touch()
    time.sleep(0.5)


def fail(reason: str, *_: object) -> None:
    raise ValueError(reason)


if __name__ == "__main__":
    signal.alarm(TIMES_OUT)
    found = run_steps(json.loads(Path(sys.argv[1]).read_text()))
    Path(f"codes-{os.environ['RANK']}.json").write_text(json.dumps(found))
    if len(found) == 1:
        sys.exit(found[0])
