"""Run one of the two processes of test_distributed.py."""

import os
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from same_run import act_in
from tiny_training import tiny_run
from torch import distributed, nn

from seq2seq.runtime.distributed import Ranks, process_group, sum_gradients, sum_over_processes
from seq2seq.runtime.process import Interrupted
from seq2seq.training.updates import Updater

TIMES_OUT = 60


def main(folder: Path, overrides: list[str]) -> None:
    """Exchange values, train, be interrupted and resume."""
    # Training uses the group of its caller, and keeps it.
    with process_group() as ranks, pytest.MonkeyPatch.context() as patch:
        exchange(folder / f"exchange-{ranks.rank}.pt", ranks)
        tiny_run(folder, *overrides)
        if ranks.is_first:
            (folder / "runs" / "tiny").rename(folder / "two")
        with patch.context() as inner, pytest.raises(Interrupted):
            if not ranks.is_first:
                signal_itself = partial(os.kill, os.getpid(), signal.SIGTERM)
                act_in(inner, Updater, "update_weights", call=2, action=signal_itself)
            tiny_run(folder, *overrides)
        tiny_run(folder, *overrides, "resume=true")
        assert distributed.is_initialized()
    assert not distributed.is_initialized()
    wait_longer_than_a_collective_may()


def exchange(path: Path, ranks: Ranks) -> None:
    """Sum, gather and broadcast values that differ between the processes."""
    total = torch.tensor([1.0 + ranks.rank])
    sum_over_processes(total)
    frozen = nn.Linear(1, 1).requires_grad_(False)
    layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1), frozen])
    first = layers[0]
    assert isinstance(first, nn.Linear)
    first.weight.grad = torch.full((3, 2), 10.0 * (1 + ranks.rank))
    if ranks.rank == 1:  # the first process has no gradient of the bias
        first.bias.grad = torch.arange(3.0)
    sum_gradients(layers)
    gradients = [parameter.grad for parameter in layers.parameters()]
    value = ranks.share_from_first(f"from {ranks.rank}")
    gathered = ranks.gather_in_first(f"from {ranks.rank}")
    layer = nn.Linear(2, 3)
    with torch.no_grad():
        layer.weight += ranks.rank
    differs = weights_differ(layer, ranks)
    ranks.copy_from_first(layer)
    ranks.check_equal_weights(layer)
    time.sleep(0.2 * ranks.rank)
    reached = time.monotonic()  # the same clock in every process of this machine
    ranks.barrier()
    content = {
        "total": total,
        "gradients": gradients,
        "value": value,
        "gathered": gathered,
        "differs": differs,
        "copied": layer.weight.detach(),
        "ranks": list(ranks),
        "reached": reached,
        "passed": time.monotonic(),
    }
    torch.save(content, path)


def wait_longer_than_a_collective_may() -> None:
    """Let the first process of a new group prepare and validate for long."""
    original = distributed.init_process_group

    def init_process_group(*arguments, **keywords):
        original(*arguments, **keywords, timeout=timedelta(seconds=1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "init_process_group", init_process_group)
        with process_group() as ranks:
            for wait in (ranks.barrier, lambda: ranks.share_from_first("scores")):
                if ranks.is_first:
                    time.sleep(1.5)
                wait()


def weights_differ(layer: nn.Module, ranks: Ranks) -> bool:
    try:
        ranks.check_equal_weights(layer)
    except ValueError:
        return True
    return False


if __name__ == "__main__":
    signal.alarm(TIMES_OUT)
    main(Path(sys.argv[1]), sys.argv[2:])
