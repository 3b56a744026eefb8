"""Expected quality: how the chrF that a model expects compares with the chrF of its translations.

    python benchmarks/reliability.py checkpoints/NAME [checkpoints/NAME ...] --output my/diagram.png

translates each run's test set, or validation set without a test set, as translate.py does. It draws
the mean chrF that was expected and observed in five groups of equal size, from the lowest to the
highest expected chrF.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sacrebleu.metrics import CHRF

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq import Translator
from seq2seq.evaluation.confidence import rank_correlation
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
    translator, directory, chrf = Translator.load(run, device="cpu"), RunDirectory(run), CHRF()
    if translator.confidence is None:
        raise SystemExit(f"error: {run} expects no chrF; its train.log says why")
    split = "test" if directory.text("test", "src").exists() else "valid"
    sources, references = (
        directory.text(split, kind).read_text(encoding="utf-8").splitlines()
        for kind in ("src", "ref")
    )
    pairs = [
        (found.expected_chrf, chrf.sentence_score(found.text, [reference]).score)
        for found, reference in zip(translator(sources), references, strict=True)
        if found.expected_chrf is not None
    ]
    expected, observed = np.array(sorted(pairs, key=lambda pair: pair[0])).T
    expected_means, observed_means = (
        [float(fifth.mean()) for fifth in np.array_split(values, 5)]
        for values in (expected, observed)
    )
    return expected_means, observed_means, rank_correlation(expected, observed)


if __name__ == "__main__":
    main()
