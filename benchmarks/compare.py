"""Train the runs of a study and print the table that compares them.

    python benchmarks/compare.py attention-types --jobs 2
    python benchmarks/compare.py self-attention --jobs 2 data.root=../shared/data/multi30k

Every run is a call of train.py with one thread, in a directory of its own under --directory;
further arguments are handed on to it. A run whose results are there is not repeated, so a study
that was stopped goes on where it was. --list prints the calls instead of making them.
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
    """What is trained, and what of it is told."""

    common: Overrides
    rows: Mapping[str, Overrides]
    """what is compared"""
    settings: Mapping[str, Overrides]
    """under what each row is trained"""
    seeds: range
    columns: Mapping[str, tuple[str, str]]
    """by their titles: keys of results.json["test"] and the format of their values"""


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
    """One call of train.py."""

    row: str
    setting: str
    overrides: Overrides
    directory: Path

    def train(self) -> None:
        """Train unless that was done; what train.py says goes to a file beside its directory."""
        call = self.directory.with_name(f"{self.directory.name}.call")
        overrides = shlex.join(self.overrides)
        if self._results.exists():
            if not call.exists() or call.read_text(encoding="utf-8") != overrides:
                raise SystemExit(
                    f"error: {self.directory} was trained by another call; delete it or choose "
                    "another --directory"
                )
            return
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        call.write_text(overrides, encoding="utf-8")
        print(f"training {self.directory}", file=sys.stderr)
        log = self.directory.with_name(f"{self.directory.name}.txt")
        with log.open("wb") as output:
            done = subprocess.run(self.command(), cwd=ROOT, stdout=output, stderr=output)
        if done.returncode:
            raise SystemExit(f"error: {shlex.join(self.command())} failed; see {log}")

    def command(self) -> list[str]:
        """Return what is called."""
        place = (f"run_name={self.directory.name}", f"checkpoint_dir='{self.directory.parent}'")
        options = ("training.threads=1", "overwrite=true")
        return [sys.executable, "train.py", *self.overrides, *place, *options]

    def results(self) -> dict[str, object]:
        """Return what results.json says of the test set, and the number of parameters."""
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
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--directory", type=Path, default=ROOT / "checkpoints")
    parser.add_argument("--list", action="store_true", help="print the calls, train nothing")
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
    """Yield the runs of a study, one seed after the other, so that a first table comes early."""
    for seed in study.seeds:
        for setting, of_setting in study.settings.items():
            for row, of_row in study.rows.items():
                name = f"{row}-{setting}-{seed}".replace("+", "-")
                yield Run(
                    row=row,
                    setting=setting,
                    overrides=(
                        *study.common,
                        *of_setting,
                        *of_row,
                        f"seed={seed}",
                        *overrides,
                    ),
                    directory=directory / name,
                )


def table(study: Study, runs: Sequence[Run]) -> str:
    """Return a Markdown table: mean and standard deviation over the seeds."""
    heads = [f"{title} {setting}" for setting in study.settings for title in study.columns]
    lines = [
        "| | " + " | ".join([*heads, "parameters"]) + " |",
        "|---|" + "--:|" * (len(heads) + 1),
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
