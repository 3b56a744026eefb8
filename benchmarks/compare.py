"""Train the runs of a study and print a table that compares them.

    python benchmarks/compare.py attention-types --jobs 2
    python benchmarks/compare.py self-attention --jobs 2 data.root=DIR

Every run is one train.py command with one thread and a directory of its own. Arguments with "="
are passed to all of them. Finished runs are not repeated, so an interrupted study can be continued.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

Overrides = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Training runs and the test scores to compare."""

    common: Overrides
    """Arguments of every run."""
    rows: Mapping[str, Overrides]
    """Arguments of each row of the table, by its title."""
    settings: Mapping[str, Overrides]
    """Arguments of each group of columns, by its title; every row is trained in every setting."""
    seeds: range
    columns: Mapping[str, tuple[str, str]]
    """Key in results.json["test"] and number format of each column, by its title."""


TYPES = ("none", "uniform", "dot", "general", "additive", "multihead", "gaussian")
STUDIES = {
    "attention-types": Study(
        common=("model=luong",),
        rows={name: (f"attention={name}",) for name in TYPES}
        | {"dot+guided": ("attention=dot", "training.guided_attention.weight=0.3")},
        settings={
            "de-en": ("data.source=de", "data.target=en"),
            "en-de": ("data.source=en", "data.target=de"),
        },
        seeds=range(1, 4),
        columns={
            "BLEU": ("bleu", ".1f"),
            "AER": ("aer", ".3f"),
            "entropy": ("attention_entropy", ".2f"),
        },
    ),
    "self-attention": Study(
        common=("data=multi30k", "training.max_epochs=100", "training.max_minutes=10"),
        rows={
            "off": (),
            "encoder": ("model.encoder.self_attention=true",),
            "decoder": ("model.decoder.self_attention=true",),
        },
        settings={"de-en": ()},
        seeds=range(1, 3),
        columns={
            "BLEU": ("bleu", ".1f"),
            "chrF": ("chrf", ".1f"),
            "perplexity": ("perplexity", ".2f"),
            "entropy": ("attention_entropy", ".2f"),
        },
    ),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run."""

    row: str
    setting: str
    overrides: Overrides
    directory: Path

    def train(self) -> None:
        """Train, unless there are results; write the output to a .txt file beside the directory.

        Raises:
            SystemExit: The results are those of another command, or training failed.
        """
        record = self.directory.with_name(f"{self.directory.name}.arguments")
        arguments = shlex.join(self.overrides)
        if self._results.exists():
            if not record.exists() or record.read_text(encoding="utf-8") != arguments:
                raise SystemExit(
                    f"error: {self.directory} was trained by another command; delete it or choose "
                    "another --directory"
                )
            return
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(arguments, encoding="utf-8")
        print(f"training {self.directory}", file=sys.stderr)
        log = self.directory.with_name(f"{self.directory.name}.txt")
        with log.open("wb") as output:
            done = subprocess.run(self.command(), cwd=ROOT, stdout=output, stderr=output)
        if done.returncode:
            raise SystemExit(f"error: {shlex.join(self.command())} failed; see {log}")

    def command(self) -> list[str]:
        """Return the train.py command."""
        location = (f"run_name={self.directory.name}", f"checkpoint_dir='{self.directory.parent}'")
        options = ("training.threads=1", "overwrite=true")
        return [sys.executable, "train.py", *self.overrides, *location, *options]

    def results(self) -> dict[str, object]:
        """Return the test scores and the number of parameters from results.json."""
        results = json.loads(self._results.read_text(encoding="utf-8"))
        return {**results["test"], "parameters": results["parameters"]}

    @property
    def _results(self) -> Path:
        return self.directory / "results.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs (default: 1)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / "checkpoints",
        help="parent of the runs' directories (default: checkpoints)",
    )
    parser.add_argument("--list", action="store_true", help="print the commands without training")
    arguments, overrides = parser.parse_known_args()
    study = STUDIES[arguments.study]
    directory = arguments.directory.resolve() / arguments.study
    runs = list(plan(study, directory, overrides=tuple(overrides)))
    if arguments.list:
        print("\n".join(shlex.join(run.command()) for run in runs))
        return
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(Run.train, runs))
    print(table(study, runs))


def plan(study: Study, directory: Path, *, overrides: Overrides) -> Iterator[Run]:
    """Yield the runs of a study, seed by seed."""
    for seed in study.seeds:
        for setting, of_setting in study.settings.items():
            for row, of_row in study.rows.items():
                name = f"{row}-{setting}-{seed}".replace("+", "-")
                yield Run(
                    row=row,
                    setting=setting,
                    overrides=(*study.common, *of_setting, *of_row, f"seed={seed}", *overrides),
                    directory=directory / name,
                )


def table(study: Study, runs: Sequence[Run]) -> str:
    """Return a Markdown table of means and standard deviations over the seeds."""
    titles = [f"{title} {setting}" for setting in study.settings for title in study.columns]
    lines = [
        "| | " + " | ".join([*titles, "parameters"]) + " |",
        "|---|" + "--:|" * (len(titles) + 1),
    ]
    for row in study.rows:
        of_row = [(run.setting, run.results()) for run in runs if run.row == row]
        cells = [
            _cell([results.get(key) for name, results in of_row if name == setting], form)
            for setting in study.settings
            for key, form in study.columns.values()
        ]
        parameters = f"{of_row[0][1]['parameters']:,}"
        lines.append("| " + " | ".join([row, *cells, parameters]) + " |")
    return "\n".join(lines)


def _cell(values: Sequence[object], form: str) -> str:
    numbers = [value for value in values if isinstance(value, float)]
    if not numbers:
        return "-"
    mean = f"{statistics.mean(numbers):{form}}"
    return mean if len(numbers) == 1 else f"{mean} ± {statistics.stdev(numbers):{form}}"


if __name__ == "__main__":
    main()
