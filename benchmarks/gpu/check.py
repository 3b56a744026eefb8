"""Check and measure everything that needs a GPU, within eight minutes, most important first.

    python benchmarks/gpu/check.py data.root=DIR
    python benchmarks/gpu/check.py --parts speed,graphs data.root=DIR
    python benchmarks/gpu/check.py --device cpu --seconds 3300 data.root=DIR

Each part is a process with a time limit, so that a failure does not stop the others; its rows of
the table are printed when it ends. The last line is a dry run with tiny sizes. Arguments with "="
are overrides of train.py for the yardstick, which is that of train_speed.py: Multi30k, in DIR.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.part import RUN
from benchmarks.train_speed import ROOT, SIZES

GROUPS = (
    {"machine": 60},
    {"tests": 170, "gradients": 170, "determinism": 170, "start": 170},
    {"grammar": 90},
    {"speed": 130},
    {"graphs": 75},
    {"multi30k": 90},
    {"translating": 80},
)
"""Parts in their order, with the seconds after which they are stopped. Those of one group check and
do not measure, so they run side by side."""
NAMES = [name for group in GROUPS for name in group]
SLOWER = 6
"""How many times as long a part may take on a CPU."""
LEAST = 15.0
"""Number of seconds without which no part is started."""
RUNS: dict[str, tuple[str, ...]] = {
    "grammar": (),
    "multi30k": (
        *SIZES,
        "model=luong",
        "attention=additive",
        "model.dropout=0.2",
        "training.optimizer.learning_rate=0.001",
        "training.schedule.name=constant",
        "training.label_smoothing=0",
        "training.max_epochs=6",
    ),
}
"""Overrides of trainings with the default precision; on a CPU, the last one scores 33.9 BLEU."""
SHORT = {
    "grammar": (
        "data.num_train=600",
        "training.max_epochs=1",
    ),
    "multi30k": (
        "training.max_epochs=null",
        "training.max_updates=3",
        "training.validation.every_updates=3",
        "training.batching.size=4",
    ),
}
"""Further overrides of a dry run."""


def main() -> None:
    options, overrides = parse()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: torch finds no GPU; --device cpu makes a dry run")
    if options.device == "cuda":
        os.environ.setdefault("OMP_NUM_THREADS", "4")  # some parts run side by side
    # Plugins of the machine's Python may warn, and a warning is an error.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options.logs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    slower = SLOWER if options.device == "cpu" else 1

    def run(name: str, seconds: float) -> None:
        seconds = min(seconds * slower, end - time.monotonic())
        print("\n".join(run_part(name, seconds, options, overrides)), flush=True)

    print("| part or measurement | result |\n|---|---|")
    for group in GROUPS:
        chosen = {name: seconds for name, seconds in group.items() if name in options.parts}
        with ThreadPoolExecutor(len(group)) as pool:
            list(pool.map(run, chosen, chosen.values()))  # raises what they raise


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--seconds", type=float, default=480.0, help="time of all parts (default: 480)"
    )
    parser.add_argument(
        "--parts",
        type=lambda text: text.split(","),
        default=NAMES,
        help=f"names with commas between them (default: {','.join(NAMES)})",
    )
    for name, holds, default in (
        ("runs", "the trained models", "checkpoints"),
        ("logs", "the output of each part", "checkpoints/gpu-logs"),
    ):
        parser.add_argument(
            f"--{name}",
            type=lambda text: Path(text).resolve(),
            default=ROOT / default,
            help=f"folder of {holds} (default: {default})",
        )
    options, overrides = parser.parse_known_args()
    unknown = set(options.parts) - set(NAMES)
    if unknown:
        parser.error(f"--parts: {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}")
    return options, overrides


def run_part(
    name: str, seconds: float, options: argparse.Namespace, overrides: Sequence[str]
) -> list[str]:
    """Run a part for at most some seconds, and return its rows of the table."""
    if seconds < LEAST:
        return [f"| **{name}** | left out: no time |"]
    command = command_of(name, seconds, options, overrides)
    path = options.logs / f"{name}.log"
    started = time.monotonic()
    with path.open("w") as log:
        log.write(f"{shlex.join(command)}\n")
        log.flush()
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                ending = f"exit {process.wait(seconds)}"
            except subprocess.TimeoutExpired:
                ending = "stopped"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its own processes too
    heading = f"| **{name}** | {ending}, {time.monotonic() - started:.0f} s |"
    text = path.read_text(encoding="utf-8", errors="replace")
    if name == "tests":
        found = re.findall(r"(?m)^(?:FAILED|ERROR|\d+ (?:passed|failed|skipped)) .*", text)
        return [heading, *(f"| | {line[:170]} |" for line in found[:15])]
    results = options.runs / RUN.format(name) / "results.json"
    if name in RUNS and results.exists():
        return [heading, describe_run(name, json.loads(results.read_text()))]
    return [heading, *(row[:330] for row in re.findall(r"(?m)^\| .* \|$", text))]


def describe_run(name: str, results: Mapping[str, Any]) -> str:
    """Return the row of a training that has ended."""
    test = results["test"]
    scores = " ".join(f"{key} {test[key]:.3g}" for key in ("bleu", "chrf", "aer") if key in test)
    return (
        f"| run {name} | {scores}, {results['updates']} updates in {results['seconds']} s, "
        f"{results['target_tokens_per_second']:.0f} tokens/s, {results['precision']} |"
    )


def command_of(
    name: str, seconds: float, options: argparse.Namespace, overrides: Sequence[str]
) -> list[str]:
    """Return the command of a part, which is to end within some seconds."""
    device = f"training.device={options.device}"
    runs = f"checkpoint_dir='{options.runs}'"
    if name in RUNS:
        given = overrides if name == "multi30k" else ()
        short = SHORT[name] if options.device == "cpu" else ()
        run = (f"run_name={RUN.format(name)}", "overwrite=true", runs, device)
        return [sys.executable, "train.py", *RUNS[name], *given, *short, *run]
    if name == "tests":
        pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-rfE"]
        return [*pytest, "tests/cuda"]
    if name == "start":  # fills the cache of the yardstick's data
        start = ["benchmarks/data_speed.py", "--repeats=1", "start"]
        return [sys.executable, *start, *SIZES, *overrides, device]
    part = [f"benchmarks/gpu/{name}.py", f"--device={options.device}", f"--seconds={seconds - 8}"]
    return [sys.executable, *part, *overrides, runs]


if __name__ == "__main__":
    main()
