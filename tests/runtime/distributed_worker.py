"""Run one of the two processes of test_distributed.py."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_training import tiny_run
from torch import nn

from seq2seq.runtime.distributed import (
    barrier,
    join_processes,
    leave_processes,
    share_from_first,
    sum_gradients,
    sum_over_processes,
)
from seq2seq.runtime.interrupts import Interrupted
from seq2seq.training import run
from seq2seq.training.updates import Updater

TIMES_OUT = 60


def main(folder: Path, overrides: list[str]) -> None:
    """Exchange values, train, be interrupted and resume."""
    exchange(folder / f"exchange-{os.environ['RANK']}.pt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "leave_processes", lambda: None)  # the next run needs them
        tiny_run(folder, *overrides)
        if os.environ["RANK"] == "0":
            (folder / "runs" / "tiny").rename(folder / "two")
        with patch.context() as inner, pytest.raises(Interrupted):
            interrupt_second(inner, update=2)
            tiny_run(folder, *overrides)
        tiny_run(folder, *overrides, "resume=true")
    leave_processes()


def exchange(path: Path) -> None:
    """Sum and broadcast values that differ between the processes."""
    ranks = join_processes()
    total = torch.tensor([1.0 + ranks.rank])
    sum_over_processes([total])
    layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    first = layers[0]
    assert isinstance(first, nn.Linear)
    first.weight.grad = torch.full((3, 2), 10.0 * (1 + ranks.rank))
    if ranks.rank == 1:  # the first process has no gradient of the bias
        first.bias.grad = torch.arange(3.0)
    sum_gradients(layers)
    gradients = [parameter.grad for parameter in layers.parameters()]
    value = share_from_first(f"from {ranks.rank}", ranks)
    time.sleep(0.2 * ranks.rank)
    reached = time.monotonic()  # the same clock in every process of this machine
    barrier(ranks)
    content = {
        "total": total,
        "gradients": gradients,
        "value": value,
        "ranks": list(ranks),
        "reached": reached,
        "passed": time.monotonic(),
    }
    torch.save(content, path)


def interrupt_second(patch: pytest.MonkeyPatch, *, update: int) -> None:
    """Send a signal to the second process only."""
    original = Updater.make

    def make(self, batches, **keywords):
        if keywords["update"] == update and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batches, **keywords)

    patch.setattr(Updater, "make", make)


if __name__ == "__main__":
    signal.alarm(TIMES_OUT)
    main(Path(sys.argv[1]), sys.argv[2:])
