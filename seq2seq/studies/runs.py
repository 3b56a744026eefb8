"""The runs of a study: their swept keys and measures, in groups that differ only in the seed."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from seq2seq.config.serialization import flatten, read_yaml
from seq2seq.evaluation.measures import MEASURES, Statistics, head_scores
from seq2seq.evaluation.metrics import Array
from seq2seq.training.run_directory import RunDirectory

SEED = "seed"
_NOT_STUDIED = {"run_name", "checkpoint_dir", "resume", "overwrite", "plugins"}
"""Keys that say where and how a run is started; they do not describe the run."""


class RunMeasure(NamedTuple):
    """A number of a finished run."""

    title: str
    form: str
    """Format of the number."""
    path: str
    """Dotted key in results.json; empty: computed from the validations."""
    hint: str = ""
    """Meaning of the number."""


RUN_MEASURES = {
    "valid_bleu": RunMeasure(
        "Validation BLEU", ".2f", "valid.bleu", "of the best checkpoint on the validation set"
    ),
    **{
        name: RunMeasure(
            each.title,
            each.form,
            f"test.{name}",
            f"{each.__doc__}; {each.better} is better" if each.better else f"{each.__doc__}",
        )
        for name, each in MEASURES.items()
    },
    "aer_of_diagonal": RunMeasure(
        "AER of diagonal", ".3f", "test.aer_of_diagonal", "of links between words in their order"
    ),
    "parameters": RunMeasure("Parameters", ".0f", "parameters"),
    "minutes": RunMeasure("Minutes", ".1f", "seconds", "training and validation"),
    "tokens_per_second": RunMeasure(
        "Tokens/s", ".0f", "target_tokens_per_second", "target tokens per second in training"
    ),
    "best_update": RunMeasure("Best update", ".0f", "best_update"),
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
"""Measures by their keys in the tables; measures of translations refer to the test set."""
_REQUIRED = ("valid", "test", "parameters", "seconds", "target_tokens_per_second", "best_update")
"""Keys that every run writes into results.json."""


@dataclass(kw_only=True, eq=False)
class StudyRun:
    """One run of a study; one that failed or was stopped has no measures."""

    name: str
    directory: RunDirectory
    failure: str | None = None
    """Reason why the run has no results."""
    was_stopped: bool = False
    """Whether the run has no results because it was stopped before its end."""
    overrides: dict[str, str] = field(default_factory=dict)
    """Overrides of a sweep's job. Equal values have equal texts, however they were typed."""
    config: dict[str, str] = field(default_factory=dict)
    """Saved configuration, with dotted keys; `attention.name` is stored as `attention`."""
    swept: dict[str, str] = field(default_factory=dict)
    """Value of each key that differs between the runs of the study."""
    measures: dict[str, float] = field(default_factory=dict)
    """Values of the `RUN_MEASURES` that the run has."""
    curve: dict[float, float] = field(default_factory=dict)
    """BLEU of each validation, by the update."""
    statistics: Statistics = field(default_factory=dict)
    """Statistics of each sentence in the test set."""
    maps: list[Array] = field(default_factory=list)
    """Weights (T, S) of the first references, averaged over heads; empty without attention."""
    signature: str = ""
    """sacreBLEU's signature of BLEU."""
    device: str = ""
    is_best_at_end: bool = False
    """Whether the last validation was the best."""
    translations: list[str] = field(default_factory=list)
    """Translations of the test set; empty if the run has not kept translations and references."""
    references: list[str] = field(default_factory=list)

    @property
    def seed(self) -> str:
        return self.swept.get(SEED, "")

    @property
    def outcome(self) -> str:
        """Return why the run has no results, with its name."""
        return f"{self.name} {'' if self.was_stopped else 'failed: '}{self.failure}"

    @cached_property
    def test_set(self) -> tuple[tuple[str, ...], str] | None:
        """References and signature; runs in which both are equal can be compared. None if either is
        missing."""
        return (tuple(self.references), self.signature) if self.references else None

    @property
    def heads(self) -> list[dict[str, float]]:
        """The measures of each attention head on the test set."""
        return head_scores(self.statistics)


@dataclass(kw_only=True, slots=True)
class Group:
    """Runs that agree in every swept key but the seed."""

    swept: dict[str, str]
    """Value of each swept key except the seed."""
    runs: list[StudyRun]
    """The runs that have results, by seed."""
    num_failed: int

    @property
    def label(self) -> str:
        """Return the swept values in one line, with the keys if there are several."""
        if len(self.swept) == 1:
            return next(iter(self.swept.values())) or "-"
        if not self.swept:
            return self.runs[0].name if len(self.runs) == 1 else "all runs"
        return " ".join(f"{key}={value}" for key, value in self.swept.items())

    def name_of(self, run: StudyRun) -> str:
        """Return the name of a run, for readers who know its group."""
        is_known = run.seed and [each.seed for each in self.runs].count(run.seed) == 1
        return f"{self.label}, seed {run.seed}" if is_known else run.name

    @property
    def best(self) -> StudyRun:
        """Return the run with the best validation score."""
        return max(self.runs, key=_valid_bleu)

    def statistics(self, measure: str) -> Array:
        """Return the statistics (R, S, K) of a measure that each of R runs has."""
        return np.stack([run.statistics[measure][:, 0] for run in self.runs])

    def spread(self, measure: str) -> "Spread":
        """Return mean and deviation over the runs that have the measure."""
        return Spread.of([r.measures[measure] for r in self.runs if measure in r.measures])


class Spread(NamedTuple):
    """A number over several runs: its mean and its deviation."""

    mean: float | None
    """Mean over the runs; None if there are no runs."""
    deviation: float | None
    """Standard deviation over the runs; None with fewer than two runs, or if a value is
    infinite."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of the values of several runs."""
        return cls(
            statistics.fmean(values) if values else None,
            statistics.stdev(values) if len(values) > 1 and math.inf not in values else None,
        )


def read_runs(paths: Sequence[Path]) -> list[StudyRun]:
    """Read runs from sweeps' directories and from run directories.

    Returns:
        The runs by validation BLEU, best first and failed runs last.

    Raises:
        ValueError: A directory does not exist, or there is no run.
    """
    found = [(path, sweep) for sweep in paths for path in _run_directories(sweep)]
    if not found:
        raise ValueError(f"{', '.join(map(str, paths))}: no runs; name a sweep or a run directory")
    runs: dict[Path, StudyRun] = {}
    # A run with a symbolic link to it counts once, under its own name.
    for path, sweep in sorted(found, key=lambda each: each[0].is_symlink()):
        if (place := path.resolve()) not in runs:
            is_ambiguous = len(paths) > 1 and path != sweep
            name = f"{sweep.name}/{path.name}" if is_ambiguous else path.name
            runs[place] = _read_run(path, name)
    _find_swept_keys(list(runs.values()))
    _find_half_bleu(list(runs.values()))
    return sorted(runs.values(), key=lambda run: (run.failure is not None, -_valid_bleu(run)))


def group_runs(runs: Sequence[StudyRun]) -> list[Group]:
    """Group runs by every swept key but the seed; the best validation BLEU comes first."""
    groups: dict[tuple[str, ...], Group] = {}
    for run in runs:
        swept = {key: value for key, value in run.swept.items() if key != SEED}
        group = groups.setdefault(tuple(swept.values()), Group(swept=swept, runs=[], num_failed=0))
        if run.failure is None:
            group.runs.append(run)
        else:
            group.num_failed += 1
    finished = [group for group in groups.values() if group.runs]
    for group in finished:
        group.runs.sort(key=lambda run: (len(run.seed), run.seed))
    return sorted(finished, key=lambda group: -(group.spread("valid_bleu").mean or 0.0))


def has_begun(path: Path) -> bool:
    """Return whether a directory has a run that began to train, and was not refused."""
    directory = RunDirectory(path)
    return directory.has_run or directory.has_results


def is_run(path: Path) -> bool:
    """Return whether a directory belongs to a run, and not to a sweep."""
    return has_begun(path) or RunDirectory(path).failure.is_file()


def as_typed(value: object) -> str:
    """Write a value as it is typed in an override."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {as_typed(each)}' for key, each in value.items())}}}"
    return str(value)


def _valid_bleu(run: StudyRun) -> float:
    return run.measures.get("valid_bleu", 0.0)


def _run_directories(sweep: Path) -> Iterator[Path]:
    """Yield the run directories of a sweep, or the directory itself if it is one."""
    if not sweep.is_dir():
        raise ValueError(f"{sweep}: no such directory; name a sweep or a run directory")
    if is_run(sweep):
        yield sweep
        return
    for path in sorted(sweep.iterdir()):
        if path.is_dir() and (is_run(path) or _was_begun(path)):
            yield path


def _was_begun(path: Path) -> bool:
    """Return whether Hydra created the numbered directory of a job that was killed at once."""
    return path.name[0].isdigit() and all(each.name.startswith(".") for each in path.iterdir())


def _read_run(path: Path, name: str) -> StudyRun:
    """Read a run; a damaged run counts as failed, so that all other runs are still compared."""
    directory = RunDirectory(path)
    run = StudyRun(name=name, directory=directory)
    try:
        run.failure = directory.read_failure()
        run.overrides = _typed_overrides(directory.read_overrides())
        run.config = _read_config(directory)
        if run.failure is None and directory.has_results:
            if all(directory.text("test", kind).is_file() for kind in ("hyp", "ref", "npz")):
                run.translations, run.references = directory.read_texts("test", ("hyp", "ref"))
                _read_statistics(run)
            _read_results(run)
        elif run.failure is None:
            run.was_stopped = True
            file = directory.results.name
            run.failure = f"stopped before it wrote {file}; resume=true continues it"
    except ValueError as error:
        run.failure = run.failure or str(error)
    return run


def _read_statistics(run: StudyRun) -> None:
    found = run.directory.read_statistics("test")
    run.statistics = {name: found.pop(name) for name in MEASURES if name in found}
    run.maps = [each for name, each in found.items() if name.startswith("map_")]
    is_whole = all(
        rows.ndim == 3 and rows.dtype.kind == "f" and len(rows) == len(run.references)
        for rows in run.statistics.values()
    )
    if not is_whole:
        error = ValueError("its sentences are not those of test.ref")
        raise run.directory.damaged(run.directory.text("test", "npz"), error)


def _typed_overrides(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.lstrip("+").partition("=") for line in lines)
    return {key: _typed(key, value) for key, _, value in pairs if key not in _NOT_STUDIED}


def _typed(key: str, text: str) -> str:
    try:
        return as_typed(OverridesParser.create().parse_override(f"{key}={text}").value())
    except HydraException:  # the file is damaged
        return text


def _read_config(directory: RunDirectory) -> dict[str, str]:
    if not directory.has_run:
        return {}
    try:
        content = read_yaml(directory.config)
        if not isinstance(content, dict):
            raise ValueError("it is not a configuration")
    except (ValueError, YAMLError, OmegaConfBaseException, OSError, RecursionError) as error:
        raise directory.damaged(directory.config, error) from error
    values = {key: as_typed(value) for key, value in flatten(content).items()}
    return {
        key.removesuffix(".name"): each for key, each in values.items() if key not in _NOT_STUDIED
    }


def _read_results(run: StudyRun) -> None:
    content = run.directory.read_results()
    try:
        if missing := [key for key in _REQUIRED if key not in content]:
            raise ValueError(f"it has no {missing[0]}")
        flat = flatten(content)
        numbers = {name: flat.get(measure.path) for name, measure in RUN_MEASURES.items()}
        measures = {name: float(value) for name, value in numbers.items() if value is not None}  # type: ignore[arg-type]
        measures["minutes"] /= 60
        validations: list[dict[str, float]] = content.get("validations", [])  # type: ignore[assignment]
        run.curve = {each["update"]: each["bleu"] for each in validations}
        diagonal: float | None = flat.get("valid.aer_of_diagonal")  # type: ignore[assignment]
        if diagonal is not None and validations:
            is_aligned = {each["update"]: each["aer"] < diagonal for each in validations}
            measures["aligned_at"] = _first_update(is_aligned)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise run.directory.damaged(run.directory.results, error) from error
    run.measures = measures
    run.signature = str(flat.get("test.signature", ""))
    run.device = str(content.get("device", ""))
    run.is_best_at_end = content["best_update"] == content.get("updates")


def _first_update(is_reached: Mapping[float, bool]) -> float:
    """Return the first update at which something is reached.

    0: it is already reached at the first validation. Infinite: it is never reached.
    """
    updates = [update for update, reached in is_reached.items() if reached]
    if not updates:
        return math.inf
    return 0.0 if updates[0] == next(iter(is_reached)) else updates[0]


def _find_half_bleu(runs: Sequence[StudyRun]) -> None:
    """Find when each run reaches half of the best validation BLEU of the study."""
    half = max((max(run.curve.values(), default=0.0) for run in runs), default=0.0) / 2
    for run in runs:
        if run.curve and half > 0:
            reached = {update: bleu >= half for update, bleu in run.curve.items()}
            run.measures["half_bleu_at"] = _first_update(reached)


def _find_swept_keys(runs: Sequence[StudyRun]) -> None:
    """Fill `swept` from the overrides, or from the configuration if a run has no overrides."""
    known = [run for run in runs if run.overrides or run.config]
    if any(not run.overrides and run.failure is None for run in known):
        keys = _differing_config_keys([run.config for run in known if run.config])
    else:
        keys = list(dict.fromkeys(key for run in known for key in run.overrides))
    for key in keys:
        values = {run: _value(run, key, runs) for run in runs}
        if len({values[run] for run in known}) > 1:
            for run, value in values.items():
                run.swept[key] = value


def _value(run: StudyRun, key: str, runs: Sequence[StudyRun]) -> str:
    """Return the value of a key as the configuration has it: 0.0 even if 0 was typed.

    Choices such as model_size are not in the configuration. They come from the overrides of this
    run, or of a run whose configuration differs at most in the seed. If a run failed before it had
    a configuration, its typed value is spelled as in another run's configuration.
    """
    if key in run.config:
        return run.config[key]
    config = run.config | {SEED: ""}
    equal = [each for each in runs if run.config and each.config | {SEED: ""} == config]
    typed = next((each.overrides[key] for each in (run, *equal) if key in each.overrides), "")
    of_others = (each.config.get(key, "") for each in runs)
    return next((value for value in of_others if is_same(typed, value)), typed)


def is_same(typed: str, value: str) -> bool:
    """Return whether a typed value equals a value of a configuration: 0 is 0.0, 1e-3 is 0.001."""
    try:
        return typed == value or float(typed) == float(value)
    except ValueError:
        return False


def _differing_config_keys(configs: Sequence[dict[str, str]]) -> list[str]:
    """Return the keys that differ between configurations in which their section has the same
    name."""
    differing = []
    for key in dict.fromkeys(key for config in configs for key in config):
        section = key.split(".")[0] if "." in key else ""
        found = {(config.get(section, ""), config.get(key, "")) for config in configs}
        if len(found) > len({name for name, _ in found}):
            differing.append(key)
    return differing
