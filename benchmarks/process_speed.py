"""Measure training in one process and in several, in target tokens per second.

    python benchmarks/process_speed.py data.root=DIR --processes 2

One process with one thread, one process with as many threads as there are processes, and several
processes of one thread run in turn, on the same batches: several processes divide each of them.
Speeds are medians over the intervals. Models have the sizes of train_speed.py. Arguments with "="
are overrides of train.py.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.train_speed import FORMS, SIZES, build
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batch, Batches, collate
from seq2seq.runtime.distributed import Ranks, process_group, read_ranks, sum_over_processes
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.updates import Updater

WARMUP = 3


def main() -> None:
    arguments, overrides = parse()
    if arguments.worker:
        config = load_config(*SIZES, *FORMS["luong"], *overrides)
        numerics = choose_numerics(
            config.training.device,
            config.training.precision,
            local_rank=read_ranks().local_rank,
        )
        with process_group(on_gpus=numerics.device.type == "cuda") as ranks:
            measured = measure(config, numerics, ranks, num_updates=arguments.updates)
            if ranks.is_first:
                print(measured)
        return
    several = arguments.processes
    rows = {
        "1 process, 1 thread": (1, 1),
        f"1 process, {several} threads": (1, several),
        f"{several} processes, 1 thread each": (several, 1),
    }
    options = [*overrides, "--updates", str(arguments.updates)]
    found: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(arguments.intervals):
        for name, (num_processes, num_threads) in rows.items():
            found[name].append(start(num_processes, num_threads, options))
    medians = {name: statistics.median(speeds) for name, speeds in found.items()}
    alone = next(iter(medians))
    print("| | target tokens/s | of 1 process |")
    print("|---|--:|--:|")
    for name, speed in medians.items():
        print(f"| {name} | {speed:.0f} | {speed / medians[alone]:.2f} |")


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=2, help="several processes (default: 2)")
    parser.add_argument(
        "--intervals", type=int, default=3, help="measurements per row (default: 3)"
    )
    parser.add_argument(
        "--updates", type=int, default=8, help="updates per measurement (default: 8)"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_known_args()


def start(num_processes: int, num_threads: int, options: Sequence[str]) -> float:
    """Measure in new processes, in the way that torchrun starts them."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    command = [sys.executable, *torchrun, __file__, "--worker", *options]
    done = subprocess.run(
        [*command, f"training.threads={num_threads}"],
        env={**os.environ, "OMP_NUM_THREADS": str(num_threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"error: the measurement with {num_processes} processes failed")
    return float(done.stdout.splitlines()[-1])


def measure(config: TrainConfig, numerics: Numerics, ranks: Ranks, *, num_updates: int) -> float:
    """Return the target tokens per second of all processes together."""
    keep_freed_memory()
    torch.set_num_threads(config.training.threads or 1)
    data = prepare_data(config)
    model = build(config, data).to(numerics.device)
    updater = Updater(config, model=model, numerics=numerics, ranks=ranks)
    batches = divided_batches(config, data, ranks, numerics)
    total = 0
    for update in range(WARMUP + num_updates):
        if update == WARMUP:
            ranks.barrier()
            total, started = 0, time.perf_counter()
        batch, num_tokens = next(batches)
        total += num_tokens
        updater.update_weights(
            [batch], update=update + 1, learning_rate=1e-4, num_tokens=num_tokens
        )
    return total / (time.perf_counter() - started)


def divided_batches(
    config: TrainConfig, data: PreparedData, ranks: Ranks, numerics: Numerics
) -> Iterator[tuple[Batch, int]]:
    """Yield this process's part of each batch, and the target tokens of the whole batch."""
    encoded = data.train.epoch(0)
    batches = Batches(
        data.train,
        config=config.training.batching,
        seed=config.seed,
        rank=ranks.rank,
        world_size=ranks.world_size,
    )
    for rows in itertools.cycle(batches.epoch(0)):
        batch = collate(encoded, rows).to(numerics.device)
        total = torch.tensor([float(batch.target_mask.sum())], device=numerics.device)
        sum_over_processes(total)
        yield batch, int(total)


if __name__ == "__main__":
    main()
