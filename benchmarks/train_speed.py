"""Measure training in target tokens per second, on this machine and against a peer.

    python benchmarks/train_speed.py data.root=DIR \
        --peer-command "python benchmarks/joeynmt.py train --data DIR"

The table has one row per decoder form and attention type, one for torch's own operations
(training.kernels=plain) and one for the loop of the usual tutorial (plain_loop.py). All models have
the same sizes, by default: Multi30k with 8,000 joint tokens, embedding 256, bidirectional GRU 512,
decoder GRU and readout 512; Adam with clipping, 128 sentences per batch. The rows run in turn,
interval by interval, so that drifts of the machine's speed affect all of them. Speeds are medians
over the intervals. Arguments with "=" are overrides of train.py.
"""

import argparse
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.operations import count_operations, product_rate
from benchmarks.plain_loop import PlainUpdater
from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.data.batching import Batch, Batches, collate
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.kernels.operations import use_kernels
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.updates import Updater

ROOT = Path(__file__).parents[1]
SIZES = (
    "data=multi30k",
    "tokenizer.vocabulary_size=8000",
    "model.embedding_size=256",
    "model.encoder.hidden_size=512",
    "model.decoder.hidden_size=512",
    "model.tied_embeddings=none",
    "training.batching.unit=sentences",
    "training.batching.size=128",
)
FORMS = {
    "luong": ("model=luong", "attention=additive"),
    "luong, no input feeding": (
        "model=luong",
        "model.input_feeding=false",
        "attention=additive",
    ),
    "bahdanau": ("model=bahdanau", "attention=additive"),
    "conditional": ("model=conditional", "attention=additive"),
}
TYPES: dict[str, tuple[str, ...]] = {
    name: ("model=luong", f"attention={name}")
    for name in attention_config_types()
    if name != "additive"  # FORMS has it
}
TYPES["dot"] = (*TYPES["dot"], "model.encoder.hidden_size=256")  # states of the decoder's size
WARMUP, UPDATES = 3, 2
MEMORY_BATCHES = (32, 64, 128, 256)


def main() -> None:
    arguments, overrides = parse()
    keep_freed_memory()
    types = {} if arguments.forms_only else TYPES
    configs = {name: configure(*row, *overrides) for name, row in (FORMS | types).items()}
    reference = configs["luong"]
    if reference.training.threads is not None:
        torch.set_num_threads(reference.training.threads)
    numerics = choose_numerics(reference.training.device, reference.training.precision)
    data = prepare_data(reference)
    batches = make_batches(reference, data, (WARMUP + UPDATES) * arguments.intervals)
    print(f"{numerics.device}, threads: {torch.get_num_threads()}, {numerics.precision.value}")
    peers = [ask_peer(arguments.peer_command)]
    runs = {name: Run(config, data, numerics) for name, config in configs.items()}
    plain = configure(*FORMS["luong"], *overrides, "training.kernels=plain")
    runs["luong, plain kernels"] = Run(plain, data, numerics)
    runs["plain step loop"] = Run(plain, data, numerics, in_step_loop=True)
    for run in runs.values():
        run.measure(batches[:WARMUP])
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    rates = []
    for interval in range(arguments.intervals):
        rates.append(product_rate(numerics))
        for name, run in runs.items():
            start = WARMUP + UPDATES * interval
            speeds[name].append(run.measure(batches[start : start + UPDATES]))
    peers.append(ask_peer(arguments.peer_command))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    print_table(runs, medians, rate=statistics.median(rates), batches=batches)
    for peer in filter(None, peers):
        print(f"{medians['luong'] / peer:.2f} times the peer's {peer:.0f} target tokens/s")
    for size in MEMORY_BATCHES if arguments.memory else ():
        megabytes = peak_memory(size, overrides)
        print(f"{size:4} sentences per batch: {megabytes:6.0f} MB beyond the model")


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peer-command",
        help="shell command that prints 'X target tokens/s'; runs before and after the intervals",
    )
    parser.add_argument(
        "--intervals", type=int, default=7, help="measurements per row (default: 7)"
    )
    parser.add_argument(
        "--forms-only", action="store_true", help="leave out the rows of the attention types"
    )
    parser.add_argument(
        "--memory", action="store_true", help="also print peak memory for several batch sizes"
    )
    return parser.parse_known_args()


def configure(*overrides: str) -> TrainConfig:
    return load_config(*SIZES, *overrides)


def make_batches(config: TrainConfig, data: PreparedData, number: int) -> list[Batch]:
    batches = Batches(
        data.train, config=config.training.batching, seed=config.seed, rank=0, world_size=1
    )
    rows = batches.epoch(0)
    encoded, links = data.train.epoch(0), data.train_links
    return [collate(encoded, rows[i % len(rows)], links=links) for i in range(number)]


def build(config: TrainConfig, data: PreparedData) -> Seq2Seq:
    """Return an untrained model with the weights of the seed."""
    torch.manual_seed(config.seed)
    return build_model(
        config,
        source_vocabulary_size=len(data.tokenizers.source),
        target_vocabulary_size=len(data.tokenizers.target),
    )


class Run:
    """A model, its updates and the kernels that they run with."""

    def __init__(
        self,
        config: TrainConfig,
        data: PreparedData,
        numerics: Numerics,
        *,
        in_step_loop: bool = False,
    ) -> None:
        self.model = build(config, data).to(numerics.device)
        self._updater = (
            PlainUpdater(config, model=self.model, numerics=numerics)
            if in_step_loop
            else Updater(config, model=self.model, numerics=numerics, ranks=Ranks(0, 0, 1))
        )
        self._device = numerics.device
        self._kernels = config.training.kernels
        self._num_updates = 0

    def measure(self, batches: Sequence[Batch]) -> float:
        """Make an update with each batch; return target tokens per second, EOS included."""
        use_kernels(self._kernels)
        counts = [batch.num_target_tokens for batch in batches]
        started = time.perf_counter()
        for batch, num_tokens in zip(batches, counts, strict=True):
            self._num_updates += 1
            self._updater.update_weights(
                [batch],
                update=self._num_updates,
                learning_rate=1e-4,
                num_tokens=num_tokens,
            )
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return sum(counts) / (time.perf_counter() - started)


def print_table(
    runs: dict[str, Run], speeds: dict[str, float], *, rate: float, batches: Sequence[Batch]
) -> None:
    print(f"product of square matrices: {rate / 1e9:.0f} GFLOP/s")
    print("| | target tokens/s | of luong | MFLOP per token | of the product rate |")
    print("|---|--:|--:|--:|--:|")
    for name, run in runs.items():
        cost = statistics.mean(count_operations(run.model, batch) for batch in batches)
        speed = speeds[name]
        shares = f"{speed / speeds['luong']:.2f} | {cost / 1e6:.0f} | {speed * cost / rate:.0%}"
        print(f"| {name} | {speed:.0f} | {shares} |")


def ask_peer(command: str | None) -> float | None:
    """Run the peer's command; return its target tokens per second."""
    if command is None:
        return None
    printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    found = re.search(r"([\d.]+) target tokens/s", printed.stdout)
    if found is None:
        sys.exit(f"error: --peer-command={command} must print 'X target tokens/s'")
    return float(found[1])


def peak_memory(size: int, overrides: Sequence[str]) -> float:
    """Return the megabytes that updates need beyond the model, measured in a new process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from benchmarks.train_speed import measure_memory; print(measure_memory(sys.argv[2:]))"
    )
    batch_size = f"training.batching.size={size}"
    command = [sys.executable, "-c", code, str(ROOT), *overrides, batch_size]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(overrides: Sequence[str]) -> float:
    keep_freed_memory()
    config = configure(*FORMS["luong"], *overrides)
    numerics = choose_numerics(config.training.device, config.training.precision)
    data = prepare_data(config)
    run = Run(config, data, numerics)
    # The first update allocates Adam's state, which is not counted; then the longest batches.
    batches = sorted(make_batches(config, data, 100), key=lambda batch: batch.target_ids.numel())
    run.measure(batches[:1])
    before = _peak_megabytes(numerics)
    run.measure(batches[-2:])
    return _peak_megabytes(numerics) - before


def _peak_megabytes(numerics: Numerics) -> float:
    """Return the most memory that was in use so far: of the GPU, or of this process."""
    if numerics.device.type == "cuda":
        return torch.cuda.max_memory_allocated(numerics.device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
