"""The runs of a study: their swept keys and results, in groups that differ only in the seed."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seq2seq.cli.studies.run_files import (
    CONFIG,
    FAILURE,
    REFERENCES,
    RESULTS,
    TRANSLATIONS,
    Results,
    read_config,
    read_failure,
    read_overrides,
    read_results,
    read_scored_lines,
)

SEED = "seed"


@dataclass(kw_only=True, slots=True)
class Run:
    """One run of a study; a failed run has empty results."""

    name: str
    path: Path
    results: Results = field(default_factory=Results)
    failure: str | None = None
    swept: dict[str, str] = field(default_factory=dict)
    """The value of each key that differs between the runs of the study."""

    @property
    def seed(self) -> str:
        return self.swept.get(SEED, "")


@dataclass(kw_only=True, slots=True)
class Group:
    """Runs that agree in every swept key but the seed."""

    swept: dict[str, str]
    """The value of each swept key but the seed."""
    runs: list[Run]
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

    def mean(self, measure: str) -> float | None:
        """Return the mean over the runs that have the measure; None if there are none."""
        return self.spread(measure).mean

    def spread(self, measure: str) -> "Spread":
        """Return mean and deviation over the runs that have the measure."""
        of_runs = [run.results.measures for run in self.runs]
        return Spread.of([each[measure] for each in of_runs if measure in each])


class Spread(NamedTuple):
    """A number of several runs."""

    mean: float | None
    """None without runs."""
    deviation: float | None
    """The standard deviation over the runs; None of fewer than two."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of the values of several runs."""
        return cls(
            statistics.fmean(values) if values else None,
            statistics.stdev(values) if len(values) > 1 else None,
        )


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read runs from sweeps' directories and from run directories.

    Returns:
        The runs by validation BLEU, best first and failed runs last.

    Raises:
        ValueError: A directory does not exist, a run is named twice, or there is no run.
    """
    found = [(path, sweep) for sweep in paths for path in _run_directories(sweep)]
    if not found:
        raise ValueError(f"{', '.join(map(str, paths))}: no runs; name a sweep or a run directory")
    places = [path.resolve() for path, _ in found]
    for place in places:
        if places.count(place) > 1:  # it would count as several seeds
            raise ValueError(f"{place} is named twice; name each sweep or run once")
    runs = []
    for path, sweep in found:
        is_ambiguous = len(paths) > 1 and path != sweep
        runs.append(_read_run(path, f"{sweep.name}/{path.name}" if is_ambiguous else path.name))
    _find_swept_keys(runs)
    runs.sort(
        key=lambda run: (run.failure is not None, -run.results.measures.get("valid_bleu", 0.0))
    )
    return runs


def group_runs(runs: Sequence[Run]) -> list[Group]:
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
    return sorted(finished, key=lambda group: -(group.mean("valid_bleu") or 0.0))


def describe_repeated_seeds(groups: Sequence[Group]) -> list[str]:
    """Return a sentence for each group that has several runs with one seed."""
    return [
        f"{group.label} has several runs with one seed; they count as different seeds, so its "
        "deviations, intervals and p-values may be too small."
        for group in groups
        if len({run.seed for run in group.runs}) < len(group.runs)
    ]


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


def is_run(path: Path) -> bool:
    """Return whether a directory is that of a run and not of a sweep."""
    return any((path / name).is_file() for name in (CONFIG, RESULTS, FAILURE))


def has_begun(path: Path) -> bool:
    """Return whether a directory has a run that trained; one that was refused has no more than the
    reason."""
    return any((path / name).is_file() for name in (CONFIG, RESULTS))


def _was_begun(path: Path) -> bool:
    """Return whether Hydra created the numbered directory of a job that was killed at once."""
    return path.name[0].isdigit() and all(each.name.startswith(".") for each in path.iterdir())


def _read_run(path: Path, name: str) -> Run:
    """Read a run; a damaged one has failed, so that the others are compared all the same."""
    run = Run(name=name, path=path)
    try:
        run.failure = read_failure(path)
        if run.failure is None:
            run.results = read_results(path / RESULTS)
            if all((path / each).is_file() for each in (TRANSLATIONS, REFERENCES)):
                read_scored_lines(path)
    except ValueError as error:
        run.results, run.failure = Results(), str(error)
    return run


def _read_description(run: Run) -> tuple[dict[str, str] | None, dict[str, str]]:
    """Return the overrides and the configuration of a run, which has failed if they are damaged."""
    try:
        return read_overrides(run.path), read_config(run.path)
    except ValueError as error:
        run.results, run.failure = Results(), run.failure or str(error)
        return None, {}


def _find_swept_keys(runs: Sequence[Run]) -> None:
    """Fill `swept` with the overrides that differ; if a run has none, with the configuration."""
    descriptions = [_read_description(run) for run in runs]
    overrides = [each for each, _ in descriptions]
    configs = [config for _, config in descriptions]
    known = [i for i in range(len(runs)) if overrides[i] is not None or configs[i]]
    if any(overrides[i] is None and runs[i].failure is None for i in known):
        keys = _differing_config_keys([configs[i] for i in known])
    else:
        keys = list(dict.fromkeys(key for i in known for key in overrides[i] or ()))
    values = {
        # The configuration first: it has 0.0 where 0 was typed.
        key: [configs[i].get(key, (overrides[i] or {}).get(key, "")) for i in range(len(runs))]
        for key in keys
    }
    for key, of_key in values.items():
        if len({of_key[i] for i in known}) > 1:
            for run, value in zip(runs, of_key, strict=True):
                run.swept[key] = value


def _differing_config_keys(configs: Sequence[dict[str, str]]) -> list[str]:
    """Return the keys that differ, without the details of a part that is another one."""
    keys = dict.fromkeys(key for config in configs for key in config)
    differing = [key for key in keys if len({config.get(key, "") for config in configs}) > 1]
    return [key for key in differing if "." not in key or key.split(".")[0] not in differing]
