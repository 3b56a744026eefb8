"""Join, leave and join again in a process of torchrun, which kills itself in the first attempt."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from seq2seq.runtime.distributed import (
    barrier,
    process_group,
    share_from_first,
    sum_over_processes,
)

TIMES_OUT = 60


def main(folder: Path) -> None:
    """Write the sums of both groups."""
    totals = [exchange(1.0)]
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    totals.append(exchange(10.0))
    (folder / os.environ["RANK"]).write_text(f"{totals}")
    wait_longer_than_others_may()


def exchange(value: float) -> float:
    """Return the sum over the processes of a new group."""
    with process_group(torch.device("cpu")) as ranks:
        total = torch.tensor([value * (1 + ranks.rank)])
        sum_over_processes([total])
    return float(total)


def wait_longer_than_others_may() -> None:
    """Let the first process prepare and validate for longer than a collective may take."""
    original = distributed.init_process_group

    def init_process_group(*arguments, **keywords):
        original(*arguments, **keywords, timeout=timedelta(seconds=1))

    distributed.init_process_group = init_process_group
    with process_group(torch.device("cpu")) as ranks:
        for wait in (barrier, lambda ranks: share_from_first("scores", ranks)):
            if ranks.is_first:
                time.sleep(2.5)
            wait(ranks)


if __name__ == "__main__":
    signal.alarm(TIMES_OUT)
    main(Path(sys.argv[1]))
