"""The runs of a study as a table: a row for each run, with its swept keys and its measures.

Runs that differ only in the seed are a group; the column `group` has the label of the group.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from seq2seq.config.composition import describe_error
from seq2seq.config.serialization import flatten, read_yaml
from seq2seq.evaluation.measures import MEASURES, Statistics, head_scores
from seq2seq.evaluation.metrics import Array
from seq2seq.files.paths import reading
from seq2seq.training.run_directory import RunDirectory

SEED = "seed"
_NOT_STUDIED = {"run_name", "checkpoint_dir", "resume", "overwrite", "plugins"}
"""Keys that say where and how a run is started; they do not describe the run."""
_REQUIRED = ("valid_bleu", "parameters", "minutes", "tokens_per_second", "best_update")
"""Measures of every finished run."""
_STOPPED = "stopped before it wrote results.json; resume=true continues it"


class RunMeasure(NamedTuple):
    """A number of a finished run."""

    title: str
    form: str
    """Format of the number."""
    path: str
    """Dotted key in results.json; empty: computed from the validations."""
    hint: str
    """Meaning of the number."""


RUN_MEASURES = {
    "valid_bleu": RunMeasure(
        "Validation BLEU", ".2f", "valid.bleu", "of the best checkpoint on the validation set"
    ),
    **{
        name: RunMeasure(
            measure.title,
            measure.form,
            f"test.{name}",
            f"{measure.__doc__}{f'; {measure.better} is better' if measure.better else ''}",
        )
        for name, measure in MEASURES.items()
    },
    "aer_of_diagonal": RunMeasure(
        "AER of diagonal", ".3f", "test.aer_of_diagonal", "of links between words in their order"
    ),
    "parameters": RunMeasure("Parameters", ".0f", "parameters", "number of trained weights"),
    "minutes": RunMeasure("Minutes", ".1f", "seconds", "training and validation"),
    "tokens_per_second": RunMeasure(
        "Tokens/s", ".0f", "target_tokens_per_second", "target tokens per second in training"
    ),
    "best_update": RunMeasure("Best update", ".0f", "best_update", "update of the best checkpoint"),
    "aligned_at": RunMeasure(
        "Aligned at update",
        ".0f",
        "",
        "first validation with a lower AER than the diagonal; 0: before the first validation",
    ),
    "half_bleu_at": RunMeasure(
        "Half BLEU at update",
        ".0f",
        "",
        "first validation with half of the study's best validation BLEU; 0: before the first",
    ),
}
"""Measures by their columns; measures of translations refer to the test set."""


_Row = dict[str, Any]
"""The columns of a run."""
_EMPTY: _Row = {
    **dict.fromkeys(("device", "signature", "test_set"), ""),
    **dict.fromkeys(("validations", "references", "translations", "maps"), ()),
    **{name: {} for name in ("overrides", "config", "statistics")},
    "best_at_end": False,
}
"""The values of a run that failed or lacks a file."""


def read_runs(paths: Sequence[Path]) -> pd.DataFrame:
    """Read runs from sweeps' directories and from run directories.

    Returns:
        A row for each run, by validation BLEU, failed runs last. Its columns are the
        `RUN_MEASURES`; `run`, the name, and `path`; `failure`, why it has no results, or an empty
        text; `swept`, the value of each key that differs between the runs; `seed` and `group`;
        `config`, `validations`, `device` and `best_at_end`; and of the test set `signature`,
        `test_set`, which is equal in runs that can be compared, `references`, `translations`,
        `statistics` of each sentence and `maps` of attention.

    Raises:
        ValueError: A directory does not exist, or there is no run.
    """
    found = [(path, sweep) for sweep in paths for path in _run_directories(sweep)]
    if not found:
        raise ValueError(f"{', '.join(map(str, paths))}: no runs; name a sweep or a run directory")
    rows: dict[Path, _Row] = {}
    # A run with a symbolic link to it counts once, under its own name.
    for path, sweep in sorted(found, key=lambda pair: pair[0].is_symlink()):
        if (place := path.resolve()) not in rows:
            is_ambiguous = len(paths) > 1 and path != sweep
            name = f"{sweep.name}/{path.name}" if is_ambiguous else path.name
            rows[place] = _read_run(path, name)
    _add_groups(list(rows.values()))
    runs = pd.DataFrame(list(rows.values()))
    curves = [{each["update"]: each["bleu"] for each in found} for found in runs["validations"]]
    half = max((bleu for curve in curves for bleu in curve.values()), default=0) / 2 or math.inf
    runs["half_bleu_at"] = [
        _first_update({update: bleu >= half for update, bleu in curve.items()}) for curve in curves
    ]
    # A measure that no run has is a column too.
    runs = runs.reindex(columns=dict.fromkeys([*runs, *RUN_MEASURES]))
    runs = runs.astype(dict.fromkeys(RUN_MEASURES, float))
    order = runs["valid_bleu"].sort_values(ascending=False, kind="stable").index
    return runs.loc[order].reset_index(drop=True)


def finished_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with results, by group and seed; the group with the best mean validation BLEU
    comes first."""
    finished = runs[runs["failure"] == ""]
    means = finished.groupby("group")["valid_bleu"].transform("mean")
    first = pd.factorize(finished["group"])[0]
    ranks = finished.assign(mean=-means, first=first, digits=finished["seed"].map(len))
    return finished.loc[ranks.sort_values(["mean", "first", "digits", "seed"]).index]


def groups_of(finished: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the runs of each group, in the order of `finished_runs`."""
    return {str(label): runs for label, runs in finished.groupby("group", sort=False)}


def heads_of(finished: pd.DataFrame) -> pd.DataFrame:
    """Return the measures of each attention head of each run."""
    rows = [
        {"group": run["group"], "run": run["run"], "head": number, **scores}
        for _, run in finished.iterrows()
        for number, scores in enumerate(head_scores(run["statistics"]), start=1)
    ]
    return pd.DataFrame(rows)


def outcome(run: pd.Series) -> str:
    """Return why a run has no results, with its name."""
    return f"{run['run']} {'' if run['failure'] == _STOPPED else 'failed: '}{run['failure']}"


def is_run(path: Path) -> bool:
    """Return whether a directory belongs to a run, and not to a sweep."""
    directory = RunDirectory(path)
    return directory.has_begun or directory.failure.is_file()


def as_typed(value: object) -> str:
    """Write a value as it is typed in an override."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {as_typed(each)}' for key, each in value.items())}}}"
    return str(value)


def is_same(typed: str, value: str) -> bool:
    """Return whether a typed value equals a value of a configuration: 0 is 0.0, 1e-3 is 0.001."""
    try:
        return typed == value or float(typed) == float(value)
    except ValueError:
        return False


def _run_directories(sweep: Path) -> Iterator[Path]:
    """Yield the run directories of a sweep, or the directory itself if it is one."""
    if is_run(sweep):
        yield sweep
        return
    for path in sorted(sweep.iterdir()):
        if path.is_dir() and (is_run(path) or _was_begun(path)):
            yield path


def _was_begun(path: Path) -> bool:
    """Return whether Hydra created the numbered directory of a job that was killed at once."""
    return path.name[0].isdigit() and all(each.name.startswith(".") for each in path.iterdir())


def _read_run(path: Path, name: str) -> _Row:
    """Read a run; a damaged run counts as failed, so that all other runs are still compared."""
    directory = RunDirectory(path)
    run = {"run": name, "path": path, "failure": "", **_EMPTY}
    try:
        run["failure"] = directory.read_failure() or ""
        run["overrides"] = _typed_overrides(directory.read_overrides())
        run["config"] = _read_config(directory)
        if not run["failure"]:
            run |= _read_results(directory) if directory.has_results else {"failure": _STOPPED}
    except ValueError as error:
        run["failure"] = run["failure"] or describe_error(error)
    return run


def _typed_overrides(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.lstrip("+").partition("=") for line in lines)
    return {key: _typed(key, value) for key, _, value in pairs if key not in _NOT_STUDIED}


def _typed(key: str, text: str) -> str:
    try:
        return as_typed(OverridesParser.create().parse_override(f"{key}={text}").value())
    except HydraException:  # the file is damaged
        return text


def _read_config(directory: RunDirectory) -> dict[str, str]:
    """Return the saved configuration with dotted keys; `attention.name` becomes `attention`."""
    if not directory.has_run:
        return {}
    with reading(directory.config):
        content = dict(read_yaml(directory.config))  # type: ignore[call-overload]
    values = {key.removesuffix(".name"): as_typed(value) for key, value in flatten(content).items()}
    return {key: value for key, value in values.items() if key not in _NOT_STUDIED}


def _read_results(directory: RunDirectory) -> _Row:
    """Return the columns of a finished run."""
    content = directory.read_results()
    with reading(directory.results):
        flat: dict[str, Any] = flatten(content)
        found = {name: flat.get(measure.path) for name, measure in RUN_MEASURES.items()}
        run: _Row = {name: float(each) for name, each in found.items() if each is not None}
        run |= {name: float(flat[RUN_MEASURES[name].path]) for name in _REQUIRED}
        run["minutes"] /= 60
        run["validations"] = content.get("validations", [])
        if (diagonal := flat.get("valid.aer_of_diagonal")) is not None:
            is_aligned = {each["update"]: each["aer"] < diagonal for each in run["validations"]}
            run["aligned_at"] = _first_update(is_aligned)
    run["device"] = str(content.get("device", ""))
    run["best_at_end"] = content["best_update"] == content.get("updates")
    run["signature"] = str(flat.get("test.signature", ""))
    if all(directory.text("test", kind).is_file() for kind in ("hyp", "ref", "npz")):
        run["translations"], references = directory.read_texts("test", ("hyp", "ref"))
        run["references"] = references
        run["test_set"] = str(hash((tuple(references), run["signature"])))
        run["statistics"], run["maps"] = _read_statistics(directory, len(references))
    return run


def _read_statistics(directory: RunDirectory, num_sentences: int) -> tuple[Statistics, list[Array]]:
    """Return the statistics of each test sentence, and the maps of the first ones."""
    arrays = directory.read_statistics("test")
    statistics = {name: arrays[name] for name in MEASURES if name in arrays}
    for rows in statistics.values():
        if rows.ndim != 3 or rows.dtype.kind != "f" or len(rows) != num_sentences:
            file = directory.text("test", "npz")
            raise ValueError(f"{file}: its sentences are not those of test.ref")
    return statistics, [rows for name, rows in arrays.items() if name.startswith("map_")]


def _first_update(is_reached: Mapping[float, bool]) -> float:
    """Return the first update at which something is reached; NaN without validations.

    0: it is already reached at the first validation. Infinite: it is never reached.
    """
    updates = [update for update, reached in is_reached.items() if reached]
    if not updates:
        return math.inf if is_reached else math.nan
    return 0.0 if updates[0] == next(iter(is_reached)) else updates[0]


def _add_groups(runs: Sequence[_Row]) -> None:
    """Add `swept`, `seed` and `group` to runs.

    The swept keys are those of the overrides, or of the configurations if a run has no overrides.
    """
    known = [run for run in runs if run["overrides"] or run["config"]]
    if any(not run["overrides"] and not run["failure"] for run in known):
        keys = _differing_keys([run["config"] for run in known if run["config"]])
    else:
        keys = list(dict.fromkeys(key for run in known for key in run["overrides"]))
    values = {key: [_value(run, key, runs) for run in runs] for key in keys}
    is_swept = {key: len({_value(run, key, runs) for run in known}) > 1 for key in keys}
    for number, run in enumerate(runs):
        swept = {key: values[key][number] for key in keys if is_swept[key]}
        run["swept"], run["seed"] = swept, swept.get(SEED, "")
        others = {key: value for key, value in swept.items() if key != SEED}
        run["group"] = " ".join(f"{key}={value}" for key, value in others.items())
        if len(others) < 2:
            run["group"] = (
                next(iter(others.values()), "all runs" if known[1:] else run["run"]) or "-"
            )


def _value(run: _Row, key: str, runs: Sequence[_Row]) -> str:
    """Return the value of a key as the configuration has it: 0.0 even if 0 was typed.

    Choices such as model_size are not in the configuration. They come from the overrides of this
    run, or of a run whose configuration differs at most in the seed. If a run failed before it had
    a configuration, its typed value is spelled as in another run's configuration.
    """
    if key in run["config"]:
        return str(run["config"][key])
    config = run["config"] | {SEED: ""}
    equal = [other for other in runs if other["config"] and other["config"] | {SEED: ""} == config]
    typed = next((each["overrides"][key] for each in (run, *equal) if key in each["overrides"]), "")
    spelled = (other["config"].get(key, "") for other in runs)
    return next((value for value in spelled if is_same(typed, value)), typed)


def _differing_keys(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the keys that differ between configurations in which their section has the same
    name."""
    differing = []
    for key in dict.fromkeys(key for config in configs for key in config):
        section = key.split(".")[0] if "." in key else ""
        found = {(config.get(section, ""), config.get(key, "")) for config in configs}
        if len(found) > len({name for name, _ in found}):
            differing.append(key)
    return differing
