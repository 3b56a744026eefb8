"""Target tokens a second of training, on this machine and against others, and what bounds it.

    python benchmarks/train_speed.py data.root=../shared/data/multi30k \
        --peer-command "python ../shared/peers/joeynmt_speed.py train"

One row for each decoder form or attention type: embedding 256, bidirectional GRU 512, decoder GRU
512 and readout 512, 8,000 joint tokens, 128 sentences a batch, Adam, clipping, Multi30k. The rows
are run in turn, interval by interval, so that a machine whose speed drifts slows them alike;
medians over the intervals are printed. Arguments with "=" are overrides of train.py.
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
sys.path.insert(0, str(Path(__file__).parent))

from plain_loop import plain_loss

from seq2seq.checkpoints.checkpoint import build_model
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data import Batch, Batches, collate
from seq2seq.kernels.packed_matmul import product_dtype
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.allocator import keep_freed_memory
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.updates import Updater

ROOT = Path(__file__).parents[1]
SIZES = (
    "data=multi30k",
    "data.vocabulary_size=8000",
    "model.encoder.embedding_size=256",
    "model.encoder.hidden_size=512",
    "model.decoder.embedding_size=256",
    "model.decoder.hidden_size=512",
    "model.decoder.readout_size=512",
    "model.tied_embeddings=none",
    "training.batching.unit=sentences",
    "training.batching.size=128",
)
FORMS = {
    "luong": ("model=luong", "attention=additive"),
    "luong, no input feeding": (
        "model=luong",
        "model.decoder.input_feeding=false",
        "attention=additive",
    ),
    "bahdanau": ("model=bahdanau", "attention=additive"),
    "conditional": ("model=conditional", "attention=additive"),
}
TYPES: dict[str, tuple[str, ...]] = {
    name: ("model=luong", f"attention={name}")
    for name in ("none", "uniform", "dot", "general", "multihead", "gaussian")
}
TYPES["dot"] = (*TYPES["dot"], "model.encoder.hidden_size=256")  # states as long as the decoder's
WARMUP, UPDATES = 3, 2
MEMORY_BATCHES = (32, 64, 128, 256)


def main() -> None:
    arguments, overrides = parse()
    keep_freed_memory()
    configs = {name: configure(*row, *overrides) for name, row in (FORMS | TYPES).items()}
    reference = configs["luong"]
    if reference.training.threads is not None:
        torch.set_num_threads(reference.training.threads)
    numerics = choose_numerics(reference.training.device, reference.training.precision)
    data = prepare_data(reference)
    batches = make_batches(reference, data, (WARMUP + UPDATES) * arguments.intervals)
    print(f"{numerics.device}, {torch.get_num_threads()} threads, {numerics.precision.value}")
    peers = [ask_peer(arguments.peer_command)]
    runs = {name: Run(config, data, numerics) for name, config in configs.items()}
    runs["plain step loop"] = Run(reference, data, numerics, is_plain=True)
    for run in runs.values():
        run.measure(batches[:WARMUP])
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    rates = []
    for interval in range(arguments.intervals):
        rates.append(matrix_rate(numerics))
        for name, run in runs.items():
            start = WARMUP + UPDATES * interval
            speeds[name].append(run.measure(batches[start : start + UPDATES]))
    peers.append(ask_peer(arguments.peer_command))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    print_table(runs, medians, rate=statistics.median(rates), batches=batches)
    for peer in filter(None, peers):
        print(f"{medians['luong'] / peer:.2f} times the peer's {peer:.0f} target tokens/s")
    for size in MEMORY_BATCHES if arguments.memory else ():
        print(f"{size:4} sentences a batch: {peak_memory(size, overrides):6.0f} MB at most")


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-command", help="prints its target tokens/s; run before and after")
    parser.add_argument("--intervals", type=int, default=7)
    parser.add_argument("--memory", action="store_true", help="also the peak against the batch")
    return parser.parse_known_args()


def configure(*overrides: str) -> TrainConfig:
    return load_config(*SIZES, *overrides)


def make_batches(config: TrainConfig, data: PreparedData, number: int) -> list[Batch]:
    batches = Batches(
        data.train, config=config.training.batching, seed=config.seed, rank=0, world_size=1
    )
    rows = batches.epoch(0)
    return [collate(data.train, rows[i % len(rows)]) for i in range(number)]


class Run:
    """A model and its updates."""

    def __init__(
        self, config: TrainConfig, data: PreparedData, numerics: Numerics, *, is_plain: bool = False
    ) -> None:
        self.model = build_model(config, data.tokenizers).to(numerics.device)
        self._updater = Updater(config, model=self.model, numerics=numerics, ranks=Ranks(0, 0, 1))
        self._numerics = numerics
        self._smoothing = config.training.label_smoothing
        self._update = 0
        self._optimizer = torch.optim.Adam(self.model.parameters(), 1e-4) if is_plain else None

    def measure(self, batches: Sequence[Batch]) -> float:
        """Make an update with each batch; return target tokens a second, EOS counted."""
        counts = [int(batch.target_mask.sum()) for batch in batches]
        started = time.perf_counter()
        for batch, num_tokens in zip(batches, counts, strict=True):
            self._make(batch.to(self._numerics.device), num_tokens)
        if self._numerics.device.type == "cuda":
            torch.cuda.synchronize()
        return sum(counts) / (time.perf_counter() - started)

    def _make(self, batch: Batch, num_tokens: int) -> None:
        self._update += 1
        if self._optimizer is None:
            self._updater.make(
                [batch], update=self._update, learning_rate=1e-4, num_tokens=num_tokens
            )
            return
        self.model.train()
        with self._numerics.autocast():
            loss = plain_loss(self.model, batch, label_smoothing=self._smoothing) / num_tokens
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def operations(model: Seq2Seq, batch: Batch) -> float:
    """Return floating-point operations a target token of an update, by formula.

    A weight costs one multiplication and one addition for each token that it meets, forward, and
    twice that backward. The encoder's weights and the projections of keys and values meet source
    tokens, all others target tokens; scores and contexts meet pairs of both. Padding, lookups and
    elementwise work are not counted.
    """
    ratio = float(batch.source_mask.sum() / batch.target_mask.sum())
    num_sources = float(batch.source_mask.sum(1).float().mean())
    weights = {False: 0, True: 0}
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and "embedding" not in name and "bridge" not in name:
            of_source = re.match("encoder|.*(key|value)_projection", name) is not None
            weights[of_source] += weight.numel()
    heads = model.attention.num_heads > 0
    keys = getattr(model.attention, "key_projection", None)
    scored = keys.out_features if isinstance(keys, torch.nn.Linear) else model.encoder.states_size
    pairs = num_sources * (scored + model.attention.context_size) * heads
    return 3 * 2 * (weights[False] + ratio * weights[True] + pairs)


def matrix_rate(numerics: Numerics, size: int = 2048) -> float:
    """Return operations a second of a square product in the precision of the run."""
    with numerics.autocast():
        dtype = product_dtype(torch.empty(0, device=numerics.device))
    a = torch.randn(size, size, device=numerics.device).to(dtype)
    times = []
    for _ in range(4):
        started = time.perf_counter()
        (a @ a)[0, 0].item()
        times.append(time.perf_counter() - started)
    return 2 * size**3 / min(times)


def print_table(
    runs: dict[str, Run], speeds: dict[str, float], *, rate: float, batches: Sequence[Batch]
) -> None:
    print(f"square product: {rate / 1e9:.0f} GFLOP/s")
    print("| | target tokens/s | of luong | MFLOP a token | of the product's rate |")
    print("|---|--:|--:|--:|--:|")
    for name, run in runs.items():
        cost = statistics.mean(operations(run.model, batch) for batch in batches)
        speed = speeds[name]
        shares = f"{speed / speeds['luong']:.2f} | {cost / 1e6:.0f} | {speed * cost / rate:.0%}"
        print(f"| {name} | {speed:.0f} | {shares} |")


def ask_peer(command: str | None) -> float | None:
    """Run the peer's benchmark; return its target tokens a second."""
    if command is None:
        return None
    printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    found = re.search(r"([\d.]+) target tokens/s", printed.stdout)
    if found is None:
        sys.exit(f"{command} printed no target tokens/s")
    return float(found[1])


def peak_memory(size: int, overrides: Sequence[str]) -> float:
    """Return the megabytes that updates of this size take beyond the model, in a new process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import train_speed;"
        "print(train_speed.measure_memory(sys.argv[2:]))"
    )
    directory = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, directory, *overrides, f"training.batching.size={size}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(overrides: Sequence[str]) -> float:
    keep_freed_memory()
    config = configure(*FORMS["luong"], *overrides)
    numerics = choose_numerics(config.training.device, config.training.precision)
    data = prepare_data(config)
    run = Run(config, data, numerics)
    # The longest batches, and twice the parameters for Adam's state before they are counted.
    batches = sorted(make_batches(config, data, 100), key=lambda batch: batch.target_ids.numel())
    run.measure(batches[:1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run.measure(batches[-2:])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    main()
