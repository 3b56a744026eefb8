"""Target tokens a second of training, for each attention type, on this machine.

    python benchmarks/train_speed.py data=multi30k data.root=../shared/data/multi30k

Takes the configuration that train.py takes. The types are run in turn, interval by interval, so
that a machine whose speed drifts slows them alike; the median over the intervals is printed.
"""

import statistics
import sys
import time
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.attention import attention_config_types
from seq2seq.config import TrainConfig, load_config, register_schemas
from seq2seq.data import Batch, Batches, collate
from seq2seq.training.checkpoint import build_model
from seq2seq.training.distributed import Ranks
from seq2seq.training.precision import Numerics, choose_numerics
from seq2seq.training.preparation import prepare_data
from seq2seq.training.updates import Updater

WARMUP, INTERVALS, UPDATES = 3, 7, 5


def main() -> None:
    register_schemas()
    overrides = sys.argv[1:]
    with initialize_config_dir(str(Path(__file__).parents[1] / "configs"), version_base="1.3"):
        configs = {
            name: load_config(compose("train", [*overrides, f"attention={name}"]))
            for name in attention_config_types()
        }
    first = next(iter(configs.values()))
    if first.training.threads is not None:
        torch.set_num_threads(first.training.threads)
    numerics = choose_numerics(first.training.device, first.training.precision)
    data = prepare_data(first)
    rows = Batches(
        data.train, config=first.training.batching, seed=first.seed, rank=0, world_size=1
    ).epoch(0)
    batches = [collate(data.train, rows[i % len(rows)]) for i in range(UPDATES * INTERVALS)]
    runs = {name: Run(config, data.tokenizers, numerics) for name, config in configs.items()}
    for run in runs.values():
        run.measure(batches[:WARMUP])
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for start in range(0, len(batches), UPDATES):
        for name, run in runs.items():
            speeds[name].append(run.measure(batches[start : start + UPDATES]))
    print(f"{numerics.device}, {torch.get_num_threads()} threads, {numerics.precision.value}")
    print(f"fp32 products: {matrix_rate(numerics):.0f} GFLOP/s")
    for name, values in sorted(speeds.items(), key=lambda item: -statistics.median(item[1])):
        print(f"{name:10} {statistics.median(values):8.0f} target tokens/s")


class Run:
    """A model and its updates."""

    def __init__(self, config: TrainConfig, tokenizers: object, numerics: Numerics) -> None:
        self.model = build_model(config, tokenizers).to(numerics.device)
        self.updater = Updater(config, model=self.model, numerics=numerics, ranks=Ranks(0, 0, 1))
        self.numerics = numerics
        self.update = 0

    def measure(self, batches: list[Batch]) -> float:
        """Make an update with each batch; return target tokens a second, EOS counted."""
        num_tokens = sum(int(batch.target_mask.sum()) for batch in batches)
        started = time.perf_counter()
        for batch in batches:
            self.update += 1
            self.updater.make(
                [batch.to(self.numerics.device)],
                update=self.update,
                learning_rate=1e-4,
                num_tokens=int(batch.target_mask.sum()),
            )
        if self.numerics.device.type == "cuda":
            torch.cuda.synchronize()
        return num_tokens / (time.perf_counter() - started)


def matrix_rate(numerics: Numerics, size: int = 1024, seconds: float = 1.0) -> float:
    """Return GFLOP/s of a square product, the measure that the machine is quoted by."""
    a = torch.randn(size, size, device=numerics.device)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        (a @ a)[0, 0].item()
        count += 1
    return 2 * size**3 * count / (time.perf_counter() - started) / 1e9


if __name__ == "__main__":
    main()
