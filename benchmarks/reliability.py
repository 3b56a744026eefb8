"""Expected quality: how the chrF that a model expects compares with the chrF of its translations.

    python benchmarks/reliability.py checkpoints/NAME [checkpoints/NAME ...] --output my/diagram.png

takes the sentences of each run's test set, or validation set without a test set, in five groups of
equal size, from the lowest to the highest expected chrF, and draws the mean chrF that was expected
and observed in each group.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.evaluation.confidence import Confidence, rank_correlation
from seq2seq.evaluation.measures import outcomes
from seq2seq.training.run_directory import RunDirectory


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the groups of each run, and draw them."""
    parser = argparse.ArgumentParser(description="Compare expected with observed chrF.")
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--output", type=Path, help="picture to draw")
    options = parser.parse_args(arguments)
    figure = Figure(figsize=(7, 3.4), dpi=200, layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="#666666", linewidth=1, linestyle="--")
    for run, marker in zip(options.runs, "osD^vX", strict=False):
        expected, observed, correlation = groups(run)
        print(f"{run}: rank correlation {correlation:.2f}")
        print(f"  expected {', '.join(f'{each:.0f}' for each in expected)}")
        print(f"  observed {', '.join(f'{each:.0f}' for each in observed)}", flush=True)
        axes.plot(expected, observed, marker=marker, label=run.name)
    axes.set(xlabel="expected chrF", ylabel="observed chrF", xlim=(0, 100), ylim=(0, 100))
    axes.set_aspect("equal")
    axes.legend(loc="upper left", frameon=False)
    if options.output is not None:
        figure.savefig(options.output)


def groups(run: Path) -> tuple[list[float], list[float], float]:
    """Return the mean expected and observed chrF of each fifth, and the rank correlation."""
    directory = RunDirectory(run)
    line = directory.read_results()["confidence"]
    if not isinstance(line, dict):
        raise SystemExit(f"error: {run} expects no chrF; its train.log says why")
    split = "test" if directory.text("test", "npz").exists() else "valid"
    found = outcomes(directory.read_statistics(split))
    expected = np.array([Confidence(**line).expected_chrf(each) for each in found.certainty])
    fifths = np.array_split(np.argsort(found.certainty, kind="stable"), 5)
    means = [[float(values[fifth].mean()) for fifth in fifths] for values in (expected, found.chrf)]
    return means[0], means[1], rank_correlation(*found)


if __name__ == "__main__":
    main()
