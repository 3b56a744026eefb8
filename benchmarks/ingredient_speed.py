"""Measure the time of an update with each ingredient of a recipe against without.

    python benchmarks/ingredient_speed.py data=multi30k data.root=DIR training.threads=1

Each row adds one ingredient to the configuration of train.py; arguments with "=" are its overrides.
All rows train on the same sentences and run in turn, interval by interval, so that drifts of the
machine's speed affect all of them. Their order is drawn anew for each interval, and the first
update after another model, which finds its weights in no cache, is not timed. The ratio is the
median of the intervals' ratios to the row before any ingredient, or, for residual connections, to
the row of as many layers.

Training draws the segmentations of the next epoch in the background; their time is printed apart,
and in its row nothing is drawn. An ingredient that the configuration does not allow is left out,
and a line says why: guided attention needs alignments, which the bundled corpus has.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.train_speed import Run, make_batches
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batch, samples_segmentations
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.run import check_parts

TWO_LAYERS = ("model.encoder.num_layers=2", "model.decoder.num_layers=2")
INGREDIENTS: dict[str, tuple[str, ...]] = {
    "base": (),
    "layer normalisation": ("model.layer_norm=true",),
    "subword sampling": ("tokenizer.sampling_alpha=0.2",),
    "average of the weights": ("training.ema_decay=0.999",),
    "word dropout": ("model.word_dropout=0.1",),
    "guided attention": ("training.guided_attention=0.3",),
    "coverage loss": ("training.coverage_loss=1",),
    "two layers": TWO_LAYERS,
    "two layers, residual": (*TWO_LAYERS, "model.residual=true"),
}
REFERENCES = {"two layers, residual": "two layers"}
"""Rows that another row than "base" is the reference of."""
WARMUP = 3
UNTIMED, TIMED = 1, 3
"""Updates of a row in an interval."""


class Row(NamedTuple):
    """A model with its updates, and its batches."""

    run: Run
    batches: list[Batch]


def main() -> None:
    arguments, overrides = parse()
    keep_freed_memory()
    config = load_config(*overrides)
    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    numerics = choose_numerics(config.training.device, config.training.precision)
    num_updates = WARMUP + (UNTIMED + TIMED) * arguments.intervals
    print(f"{numerics.device}, threads: {torch.get_num_threads()}, {numerics.precision.value}")
    data = prepare_data(config)
    rows: dict[str, Row] = {}
    for name, ingredient in INGREDIENTS.items():
        try:
            rows[name] = make_row(load_config(*ingredient, *overrides), data, numerics, num_updates)
        except USER_ERRORS as error:
            print(f"{name} is left out: {describe_error(error)}")
    for row in rows.values():
        row.run.measure(row.batches[:WARMUP])
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    draw = random.Random(1)
    for interval in range(arguments.intervals):
        start = WARMUP + (UNTIMED + TIMED) * interval
        for name in draw.sample(list(rows), len(rows)):
            seconds[name].append(measure(rows[name], start))
    print_table(rows, seconds)


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--intervals", type=int, default=15, help="measurements per row (default: 15)"
    )
    return parser.parse_known_args()


def make_row(config: TrainConfig, data: PreparedData, numerics: Numerics, number: int) -> Row:
    """Build the model of a row and the batches of its updates."""
    check_parts(config)
    draws = samples_segmentations(config.tokenizer)
    if draws or config.training.guided_attention > 0:
        data = prepare_data(config)
    batches = make_batches(config, data, number)
    if draws:
        print_drawing_time(data)
    return Row(Run(config, data, numerics), batches)


def print_drawing_time(data: PreparedData) -> None:
    """Print how long the segmentations of an epoch take."""
    data.train.epoch(0)  # which begins to draw the next one
    started = time.perf_counter()
    data.train.epoch(1)
    seconds = time.perf_counter() - started
    print(f"subword sampling draws the segmentations of an epoch in {seconds:.1f} s")


def measure(row: Row, start: int) -> float:
    """Return the seconds of an update of the interval that begins with batch ``start``."""
    row.run.measure(row.batches[start : start + UNTIMED])
    batches = row.batches[start + UNTIMED :][:TIMED]
    num_tokens = sum(batch.num_target_tokens for batch in batches)
    return num_tokens / row.run.measure(batches) / len(batches)


def print_table(rows: dict[str, Row], seconds: dict[str, list[float]]) -> None:
    print("| | ms per update | against without | target tokens per update |")
    print("|---|--:|--:|--:|")
    for name, row in rows.items():
        reference = seconds[REFERENCES.get(name, "base")]
        ratio = statistics.median(
            own / other for own, other in zip(seconds[name], reference, strict=True)
        )
        counts = [batch.num_target_tokens for batch in row.batches[WARMUP:]]
        milliseconds = 1000 * statistics.median(seconds[name])
        print(f"| {name} | {milliseconds:.0f} | {ratio:.2f} | {statistics.mean(counts):.0f} |")


if __name__ == "__main__":
    main()
