"""Directories of finished and failed runs, without training."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from seq2seq.evaluation.measures import Sentences, measure
from seq2seq.files.atomic import write_text
from seq2seq.studies.runs import finished_runs, read_runs
from seq2seq.studies.study import find_differences
from seq2seq.studies.tables import Study
from seq2seq.training.run_directory import RunDirectory

REFERENCE = [
    "A dog runs through the deep snow.",
    "Two men are sitting on a bench.",
    "The child isn't sleeping, is it?",
    "A woman in red sings.",
    "Nobody is here today, I think.",
]
GOOD = [
    "A dog runs through snow.",
    "Two men sit on a bench.",
    "The child is not sleeping, is it?",
    "A woman in red sings.",
    "Nobody is here, I think.",
]
BAD = [
    "A dog runs through the deep snow.",
    "Two men are sitting.",
    "A child is not asleep, is it?",
    "",
    "Nobody is here today, I think.",
]
"""A text, and translations of two systems, to score."""
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
REFERENCES = [f"The {noun} runs through the deep snow ." for noun in ("dog", "cat", "man")] * 10


def write_run(
    path: Path,
    *overrides: str,
    bleu: float = 30.0,
    valid_bleu: float | None = None,
    aer: float | None = None,
    translations: Sequence[str] = REFERENCES,
    references: Sequence[str] = REFERENCES,
) -> Path:
    """Write what a finished run leaves, as far as comparisons read it."""
    path.mkdir(parents=True)
    test = {"bleu": bleu, "chrf": 50.5, "ter": 30.25, "perplexity": 2.5, "signature": SIGNATURE}
    if aer is not None:
        test |= {"aer": aer, "entropy": 0.5, "sharpness": 0.75}
    results = {
        "valid": {"bleu": bleu if valid_bleu is None else valid_bleu},
        "test": test,
        "parameters": 1234,
        "seconds": 90.0,
        "target_tokens_per_second": 567.8,
        "best_update": 12,
    }
    directory = RunDirectory(path)
    write_text(directory.results, json.dumps(results))
    texts = Sentences(translations=translations, references=[references])
    directory.write_statistics("test", measure(texts))
    for name, lines in (("test.hyp", translations), ("test.ref", references)):
        (path / name).write_text("".join(f"{line}\n" for line in lines))
    if overrides:
        directory.record_overrides(overrides)
    return path


def record_failure(path: Path, reason: str, overrides: Sequence[str] = ()) -> None:
    """Write what a failed job leaves."""
    RunDirectory(path).record_failure(reason, overrides)


def change_results(path: Path, **values: object) -> None:
    """Replace values in the results of a run."""
    file = path / "results.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def make_runs(**groups: int) -> pd.DataFrame:
    """Return runs without results: the number of each group."""
    rows = [
        (label, f"{label}-{number}") for label, size in groups.items() for number in range(size)
    ]
    runs = pd.DataFrame(rows, columns=["group", "run"])
    runs["seed"] = runs["test_set"] = ""
    return runs.assign(statistics=[{} for _ in rows])


def read_finished(path: Path) -> pd.DataFrame:
    """Read the finished runs of a study."""
    return finished_runs(read_runs([path]))


def read_study(path: Path, baseline: str | None = None) -> Study:
    """Compare the groups of a study."""
    return find_differences(read_runs([path]), baseline)


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table in CSV."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def write_study(path: Path) -> Path:
    """Write two types with two seeds each; `dot` translates like the references."""
    for number, (name, seed, bleu) in enumerate(
        [("none", 1, 9.5), ("none", 2, 10.5), ("dot", 1, 30.0), ("dot", 2, 32.0)]
    ):
        translations = REFERENCES if name != "none" else [f"A runs {seed} ."] * 30
        write_run(
            path / f"{number}-grammar-{name}-seed-{seed}",
            f"attention={name}",
            f"seed={seed}",
            "training.max_updates=2",
            bleu=bleu,
            translations=translations,
        )
    return path
