"""A part of the check on a GPU: its device, its time, its rows of the table, and how it measures.

A part is a program of its own, so that check.py can stop it, and takes the same arguments as all
others: `--device`, `--seconds` and overrides of train.py. On a CPU the sizes are tiny; such a dry
run shows that the programs work.
"""

import argparse
import functools
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from benchmarks.train_speed import FORMS, configure
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.training.preparation import PreparedData, prepare_data

_Result = TypeVar("_Result")

RUN = "gpu-{}"
"""Name of a run that check.py trains, with the name of its part."""


class Part:
    """The arguments of a part, and what all parts do with them."""

    def __init__(self, device: str, seconds: float, overrides: Sequence[str]) -> None:
        self.name = device
        self.on_gpu = device == "cuda"
        self.device = torch.device("cuda", 0) if self.on_gpu else torch.device("cpu")
        self.precisions = ("fp32", "tf32", "bf16") if self.on_gpu else ("fp32", "bf16")
        self.sizes = (128, 512, 2048) if self.on_gpu else (8,)
        """Sentences per batch."""
        self.overrides = (*overrides, f"training.device={device}")
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds until the part must end."""
        return self._end - time.monotonic()

    def row(self, name: str, value: str) -> None:
        """Print a row of the table."""
        print(f"| {name} | {value} |", flush=True)

    def attempt(
        self, name: str, function: Callable[[], _Result], *, seconds: float = 6
    ) -> _Result | None:
        """Return the result; a row says if an error occurred or less than `seconds` are left."""
        if self.left() < seconds:
            self.row(name, "left out: no time")
            return None
        try:
            return function()
        except Exception as error:  # the other measurements go on
            traceback.print_exc()
            self.row(name, f"FAILED {type(error).__name__}: {' '.join(str(error).split())[:150]}")
            return None

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def time(self, function: Callable[[], object]) -> float:
        """Return the seconds of one call, the work of the GPU included."""
        self.synchronize()
        started = time.perf_counter()
        function()
        self.synchronize()
        return time.perf_counter() - started

    def seconds_per_call(
        self, function: Callable[[], object], *, most: float = 0.3, calls: int = 10**5
    ) -> float:
        """Return the mean time of several calls without a wait between them.

        Args:
            function: The function; its first two calls are not measured.
            most: Seconds that all calls may take, if more than three.
            calls: Maximum number of calls.
        """
        function()
        function()
        once = self.time(function)
        number = max(3, min(calls, int(most / max(once, 1e-6))))
        return self.time(lambda: [function() for _ in range(number)]) / number

    def graph(self, function: Callable[[], object]) -> Callable[[], object]:
        """Return a function that replays the CUDA graph of a call; the same function on a CPU."""
        function()
        if not self.on_gpu:
            return function
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # so that libraries allocate what they need
            function()
            function()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
        return graph.replay

    def numerics(self, precision: str) -> Numerics:
        """Return the numerics of this device."""
        return choose_numerics(Device(self.name), Precision(precision))

    def yardstick(self, *overrides: str, form: str = "luong") -> TrainConfig:
        """Return the configuration of train_speed.py; the arguments of the part come last."""
        return configure(*FORMS[form], *overrides, *self.overrides)

    def bundled(self, *overrides: str) -> TrainConfig:
        """Return the configuration of a run on some of the bundled corpus."""
        few = (f"data.num_train={3000 if self.on_gpu else 160}",)
        return load_config(*few, f"training.device={self.name}", *overrides)

    @functools.cached_property
    def data(self) -> PreparedData:
        """The data of the yardstick."""
        return prepare_data(self.yardstick())

    @property
    def run(self) -> Path:
        """Folder of the run whose translations are measured."""
        return Path(self.yardstick().checkpoint_dir, RUN.format("multi30k"))


def run_part(main: Callable[[Part], None]) -> None:
    """Run a part with the arguments of this program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=3600.0)
    arguments, overrides = parser.parse_known_args()
    part = Part(arguments.device, arguments.seconds, overrides)
    main(part)
    print(f"{part.left():.0f} s left")
