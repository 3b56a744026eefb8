"""The speed of training: tokens per second, memory, kernels, and the share of time they run."""

import gc
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.part import Part, run_part
from benchmarks.train_speed import FORMS, TYPES, Run, make_batches
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batch, Batches, collate
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training.preparation import PreparedData, prepare_data

SECONDS = 2.5
"""How long an average takes."""


class Speed(NamedTuple):
    """The speed of updates with distinct batches."""

    run: Run
    tokens: float
    """Target tokens per second."""
    milliseconds: float
    """Of one update."""
    megabytes: float
    """Peak memory of the GPU."""

    def __str__(self) -> str:
        return (
            f"{self.tokens:.0f} tokens/s, {self.milliseconds:.1f} ms per update, "
            f"{self.megabytes:.0f} MB"
        )


def main(part: Part) -> None:
    keep_freed_memory()
    initialize_quickly()
    first, last, lowest = part.sizes[0], part.sizes[-1], part.precisions[-1]

    def measure(
        name: str, config: TrainConfig, precision: str = "fp32", *, in_step_loop: bool = False
    ) -> None:
        updates = partial(speed_of, part, part.data, config, precision, in_step_loop=in_step_loop)
        found = part.attempt(name, updates, seconds=8)
        if found is not None:
            part.row(name, str(found))

    for size in part.sizes:
        for precision in part.precisions:
            name = f"luong, {size}, {precision}"
            part.attempt(name, partial(measure_kernels, part, name, size, precision), seconds=8)
    part.attempt("host", partial(measure_host, part))
    for precision in (part.precisions[0], lowest):
        part.attempt("default", partial(measure_default_model, part, precision), seconds=8)
    for form in list(FORMS)[1:]:
        for size, precision in ((first, "fp32"), (last, lowest)):
            config = part.yardstick(f"training.batching.size={size}", form=form)
            measure(f"{form}, {size}, {precision}", config, precision)
    small = f"training.batching.size={first}"
    measure("plain kernels", part.yardstick(small, "training.kernels=plain"))
    measure("plain step loop", part.yardstick(small), in_step_loop=True)
    for name, overrides in TYPES.items():
        measure(f"{name}, {first}, fp32", part.yardstick(small, *overrides))


def initialize_quickly() -> None:
    """Initialize recurrent matrices without the decompositions, which take a second per model."""
    torch.nn.init.orthogonal_ = partial(torch.nn.init.normal_, std=0.04)


def speed_of(
    part: Part,
    data: PreparedData,
    config: TrainConfig,
    precision: str,
    *,
    in_step_loop: bool = False,
) -> Speed:
    """Measure updates with distinct batches, after some that are not measured."""
    warmup, most = (6, 40) if part.on_gpu else (1, 2)
    gc.collect()
    if part.on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    batches = make_batches(config, data, warmup + most)
    run = Run(config, data, part.numerics(precision), in_step_loop=in_step_loop)
    run.measure(batches[:warmup])
    tokens, num_updates, seconds = 0, 0, 0.0
    while seconds < SECONDS and num_updates < most:
        chosen = batches[warmup + num_updates :][:5]
        seconds += part.time(partial(run.measure, chosen))
        tokens += sum(each.num_target_tokens for each in chosen)
        num_updates += len(chosen)
    peak = torch.cuda.max_memory_allocated() / 2**20 if part.on_gpu else 0.0
    return Speed(run, tokens / seconds, 1e3 * seconds / num_updates, peak)


def measure_kernels(part: Part, name: str, size: int, precision: str) -> None:
    """Measure the yardstick; count its kernels, and add up the time in which they run."""
    config = part.yardstick(f"training.batching.size={size}")
    speed = speed_of(part, part.data, config, precision)
    part.row(name, str(speed))
    batches = make_batches(config, part.data, 3)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * part.on_gpu
    with profile(activities=activities) as profiler:
        speed.run.measure(batches)
    events = profiler.key_averages()
    kernels = [
        each for each in events if each.device_type.name == "CUDA" and not each.is_user_annotation
    ]
    num_kernels = sum(each.count for each in kernels) / len(batches)
    operations = sum(each.count for each in events if each.key.startswith("aten::")) / len(batches)
    waits = sum(each.count for each in events if "Synchronize" in each.key) / len(batches)
    busy = sum(each.self_device_time_total for each in kernels) / len(batches) / 1e3
    part.row(
        f"profile of {name}",
        f"{num_kernels:.0f} kernels and {operations:.0f} operations per update, {waits:.1f} waits, "
        f"kernels run {busy:.2f} ms = {busy / speed.milliseconds:.0%} of the update",
    )
    key = f"self_{'device' if part.on_gpu else 'cpu'}_time_total"
    print(events.table(sort_by=key, row_limit=25, max_name_column_width=90))


def measure_host(part: Part) -> None:
    """Measure what the host does for a batch besides launching: collating, copying."""
    for size in part.sizes:
        config = part.yardstick(f"training.batching.size={size}")
        encoded = part.data.train.epoch(0)
        batching = config.training.batching
        rows = Batches(part.data.train, config=batching, seed=1, rank=0, world_size=1).epoch(0)[:10]
        batches: list[Batch] = []
        collating = part.time(partial(batches.extend, map(partial(collate, encoded), rows)))
        batches[0].to(part.device)
        copying = part.time(partial(list, (each.to(part.device) for each in batches)))
        part.row(
            f"host, {size} sentences, ms",
            f"collate {1e3 * collating / len(rows):.2f}, copy {1e3 * copying / len(rows):.2f}",
        )


def measure_default_model(part: Part, precision: str) -> None:
    """Measure the sizes and batches of `python train.py data=multi30k`."""
    config = load_config("data=multi30k", *part.overrides)
    speed = speed_of(part, prepare_data(config), config, precision)
    part.row(f"default model, {precision}", str(speed))


if __name__ == "__main__":
    run_part(main)
