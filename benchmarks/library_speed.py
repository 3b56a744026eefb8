"""Measure updates with the products of MKL, of oneDNN, and in bf16, with one thread.

    python benchmarks/library_speed.py data=multi30k data.root=DIR

The kinds run in turn, batch by batch, and processor time is counted, so that other programs on the
machine change little. torch 2.9 or newer is needed. Arguments with "=" are overrides of train.py.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import seq2seq.runtime.numerics as numerics
from benchmarks.train_speed import Run, make_batches
from seq2seq.config.schema import load_config
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training.preparation import prepare_data

NUM_BATCHES = 10
KINDS = {"MKL": ("fp32", False), "oneDNN": ("fp32", True), "bf16": ("bf16", True)}


def main(overrides: Sequence[str]) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    seconds = measure(*overrides)
    print("| products | seconds | times as fast |\n|---|--:|--:|")
    for kind, each in seconds.items():
        print(f"| {kind} | {each:.2f} | {seconds['MKL'] / each:.2f} |")


def measure(*overrides: str) -> dict[str, float]:
    """Return the seconds of processor time of each kind."""
    configs = {
        kind: load_config(*overrides, f"training.precision={precision}")
        for kind, (precision, _) in KINDS.items()
    }
    data = prepare_data(configs["MKL"])
    batches = make_batches(configs["MKL"], data, NUM_BATCHES + 1)
    runs, seconds = {}, dict.fromkeys(KINDS, 0.0)
    for index, batch in enumerate(batches):
        for kind, (_, by_onednn) in KINDS.items():
            numerics.onednn_is_faster = lambda by_onednn=by_onednn: by_onednn
            if kind not in runs:
                training = configs[kind].training
                chosen = numerics.choose_numerics(training.device, training.precision)
                runs[kind] = Run(configs[kind], data, chosen)
            started = time.thread_time()
            runs[kind].measure([batch])
            if index:  # the first one warms up
                seconds[kind] += time.thread_time() - started
    return seconds


if __name__ == "__main__":
    main(sys.argv[1:])
