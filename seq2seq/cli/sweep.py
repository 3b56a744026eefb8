"""Run the jobs of a sweep, in this process or a launcher's, and summarize the sweep at its end."""

import contextlib
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from operator import itemgetter
from pathlib import Path

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from seq2seq.checks import check_value, visible
from seq2seq.cli.command_line import errors_in_one_line
from seq2seq.config.composition import USER_ERRORS, describe_error, quote_value
from seq2seq.files.lock import DirectoryInUseError, DirectoryLock
from seq2seq.files.paths import expand_home
from seq2seq.runtime.distributed import process_group
from seq2seq.runtime.process import (
    Interrupted,
    LostProcessError,
    equal_messages_once,
    is_first_process,
    with_process_name,
)
from seq2seq.studies.interventions import find_intervention
from seq2seq.training.log import labelled_lines
from seq2seq.training.run_directory import RunDirectory


def run_job(path: Path, train: Callable[[], float]) -> float | None:
    """Train one job; a failure is recorded in its directory and does not end the sweep.

    Returns:
        The value for a sweeper to maximize; None if the job failed.
    """
    overrides = list(HydraConfig.get().overrides.task)
    if is_first_process():
        print(f"\n{path.name}: {' '.join(overrides)}", file=sys.stderr)
    score, failure, may_record = None, None, True
    try:
        score = train()
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, (*USER_ERRORS, LostProcessError)):
            traceback.print_exc()
        text = with_process_name(describe_error(error))
        failure = isinstance(error, LostProcessError), text
        # Write nothing into a directory that another process uses.
        may_record = not isinstance(error, DirectoryInUseError)
    with process_group() as ranks:  # all processes begin the next job together
        failures = [each for each in ranks.gather_in_first(failure) if each is not None]
    if failures:
        # A process that only lost contact with another process does not know the cause.
        _, cause = min(failures, key=itemgetter(0))
        print(f"{path.name} failed: {visible(cause)}", file=sys.stderr)
        if may_record:
            RunDirectory(path).record_failure(cause, overrides)
    elif ranks.is_first:
        RunDirectory(path).record_overrides(overrides)
    return score


class StudySummary(Callback):
    """Name the runs of a sweep by their swept keys, and compare the runs when all have ended."""

    def __init__(
        self,
        baseline: object = None,
        interventions: Sequence[str] = (),
        attributions: bool = False,
    ) -> None:
        """Store the options.

        Args:
            baseline: The group to compare with, a text, number or truth value;
                None: the best group on the validation set.
            interventions: Changes of attention weights with which the test set is translated again.
            attributions: Whether attention is compared with erasure and gradient.
        """
        self.baseline = baseline
        self.interventions = (
            [interventions] if isinstance(interventions, str) else list(interventions)
        )
        self.attributions = attributions

    def on_multirun_start(self, config: DictConfig, **_: object) -> None:
        """Lock the sweep's directory, and name the runs.

        The names leave out keys that are equal in all runs or appear in `run_name`.
        """
        content = OmegaConf.to_container(config, resolve=False)
        assert isinstance(content, dict)
        with errors_in_one_line():  # Hydra would turn an error into a warning
            list(map(find_intervention, self.interventions))  # raises before hours of training
            check_value("hydra.callbacks.study.attributions", self.attributions, bool)
            if content["resume"] and "${now:" in str(content["hydra"]["sweep"]["dir"]):
                resume = f"resume={content['resume']}".lower()
                raise ValueError(
                    f"{resume}: a sweep is resumed in its directory; add hydra.sweep.dir=DIRECTORY"
                )
            with process_group() as ranks:
                path = expand_home(config.hydra.sweep.dir, key="hydra.sweep.dir")
                sweep = ranks.share_from_first(str(path))
            SWEEP.begin(Path(sweep), is_new=not (content["resume"] or content["overwrite"]))
        # Each process composes its jobs itself; a directory with the time in its name would differ
        # between processes.
        directory = f"hydra.sweep.dir={quote_value(sweep)}"
        keys = unnamed_keys(list(config.hydra.overrides.task), str(content["run_name"]))
        option = f"hydra.job.config.override_dirname.exclude_keys=[{','.join(keys)}]"
        with read_write(config), open_dict(config):
            config.hydra.overrides.hydra.extend([option, directory])
            config.hydra.sweep.dir = sweep
        prepare_launcher(_name(config.hydra), Path(sweep))

    def on_multirun_end(self, config: DictConfig, **_: object) -> None:
        """Write the tables; exit with 1 if a run failed."""
        if not is_first_process():
            return
        # pandas takes long to load.
        from seq2seq.studies.comparison import find_baselines
        from seq2seq.studies.runs import as_typed, finished_runs, read_runs
        from seq2seq.studies.study import list_files, write_tables

        sweep = Path(config.hydra.sweep.dir)
        with errors_in_one_line(), equal_messages_once():
            runs = read_runs([sweep])
            baseline = None if self.baseline is None else as_typed(self.baseline)
            try:
                find_baselines(finished_runs(runs), baseline)
            except ValueError as error:  # write the tables despite a bad baseline
                print(
                    f"warning: {visible(str(error))}; the best group is the baseline",
                    file=sys.stderr,
                )
                baseline = None
            table = write_tables(
                runs,
                sweep,
                baseline=baseline,
                interventions=list(map(find_intervention, self.interventions)),
                attributions=self.attributions,
            )
        print(f"\n{visible(table)}\n\n{list_files(sweep)}", file=sys.stderr)
        SWEEP.end()
        if (runs["failure"] != "").any():
            sys.exit(1)


def unnamed_keys(overrides: Sequence[str], run_name: str) -> list[str]:
    """Return the keys of a sweep's overrides that the name of a run leaves out.

    Args:
        overrides: The arguments of the sweep.
        run_name: `run_name` before interpolation; the keys that it refers to are left out.

    Example:
        >>> unnamed_keys(["attention=dot,none", "seed=1,2", "data=files"], "${attention.name}")
        ['data', 'attention']
    """
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    referred = re.findall(r"\$\{([\w.]+?)(?:\.name)?\}", run_name)
    fixed = [each.key_or_group for each in parsed if not each.is_sweep_override()]
    return list(dict.fromkeys([*fixed, *referred]))


def job_name(run_name: object, override_dirname: str) -> str:
    """Return the name of a job's directory: `run_name` and the overrides that it does not contain.

    The directory is inside the sweep even if `run_name` is a path, which the job itself refuses.

    Example:
        >>> job_name("dot", "seed-1-data.root-a/b c"), job_name("../dot", "")
        ('dot-seed-1-data.root-a_b_c', '.._dot')
    """
    suffix = re.sub(r"[^\w.+-]+", "_", override_dirname).strip("_")
    return str(run_name).replace("/", "_") + (f"-{suffix}" if suffix else "")


# configs/train.yaml uses this resolver, also in the processes of a launcher, which import this
# module.
OmegaConf.register_new_resolver("job_name", job_name, replace=True)


_BASIC, _JOBLIB, _SUBMITIT_LOCAL = "basic", "joblib", "submitit_local"
_POLL_SECONDS = 1.0


class _Sweep:
    """The sweep that this process runs, if any: its directory and the lock on the directory."""

    directory: Path | None = None
    _lock: DirectoryLock | None = None

    def begin(self, directory: Path, *, is_new: bool) -> None:
        """Lock the directory, in the process that writes files.

        Raises:
            ValueError: Another sweep uses the directory, or the directory has runs of an earlier
                sweep, which the tables of a new sweep would contain.
        """
        if is_first_process():
            advice = "wait until that sweep ends, stop it or choose another hydra.sweep.dir"
            lock = DirectoryLock(directory, advice=advice)
            lock.acquire()
            self._lock = lock
            runs = sorted(path.name for path in directory.iterdir() if RunDirectory(path).has_begun)
            if runs and is_new:
                raise ValueError(
                    f"{directory} has runs of an earlier sweep, such as {runs[0]}; continue it "
                    "with resume=auto, replace it with overwrite=true or choose another "
                    "hydra.sweep.dir"
                )
        self.directory = directory

    def end(self) -> None:
        if self._lock is not None:
            self._lock.release()
        self.directory = self._lock = None


SWEEP = _Sweep()
"""Hydra creates the callback, and the command cannot reach it, so both share this object."""


def prepare_launcher(launcher: str, sweep: Path) -> None:
    """Prepare the process of a sweep, before its launcher starts jobs.

    submitit_local starts all jobs at once, so each gets one thread; joblib itself divides the cores
    among its jobs. OMP_NUM_THREADS in the environment takes precedence.
    """
    if launcher == _SUBMITIT_LOCAL:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Optuna would log a failed job, whose cause has its own line, as a value that is no number.
    logging.getLogger("hydra_plugins.hydra_optuna_sweeper._impl").setLevel(logging.ERROR)
    if launcher.startswith("submitit"):
        print(f"{launcher}: the jobs log to {sweep / '.submitit'}/", file=sys.stderr)


@contextlib.contextmanager
def launched_job(name: str) -> Iterator[None]:
    """Run one job of the sweep that Hydra describes.

    With a launcher other than Hydra's own, jobs run at the same time, so every line on the console
    begins with the name of the run. If the sweep is killed, a job of joblib stops as after SIGTERM.
    """
    launcher = _name(HydraConfig.get())
    labels = contextlib.nullcontext() if launcher == _BASIC else labelled_lines(name)
    watch = _stopping_with_parent() if launcher == _JOBLIB else contextlib.nullcontext()
    with labels, watch:
        yield


@contextlib.contextmanager
def _stopping_with_parent() -> Iterator[None]:
    """Stop the run as after SIGTERM if the parent of this process has ended, and then exit."""
    parent, has_ended = os.getppid(), threading.Event()

    def watch() -> None:
        while not has_ended.wait(_POLL_SECONDS):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)  # joblib would wait for its parent forever


@contextlib.contextmanager
def stopped_sweeps_in_one_line() -> Iterator[None]:
    """Say how to continue a sweep that was stopped, or why no run of a search has a result.

    A sweep is stopped by Ctrl-C, or by the process of a job that ended without a result.
    """
    try:
        yield
    except (KeyboardInterrupt, RuntimeError, ValueError) as error:
        if (sweep := SWEEP.directory) is None:
            raise
        code = 1
        again = f"repeat the command with hydra.sweep.dir={sweep} resume=auto"
        if isinstance(error, KeyboardInterrupt):
            line, code = f"stopped by Ctrl-C; to continue, {again}", 128 + signal.SIGINT
        elif isinstance(error, BrokenExecutor):  # joblib has ended the other processes too
            line = (
                f"error: the process of a job was killed, perhaps because memory ran out; {again}"
            )
        elif "No trials are completed" in str(error):  # of Optuna
            line = f"error: no run has results\n{failures_in_lines(sweep)}"
        elif type(error).__name__ == "FailedJobError" or "srun" in str(error):  # of submitit
            line = f"error: no job was started: {' '.join(str(error).split())}; {again}"
        elif type(error).__module__.startswith("submitit."):
            line = (
                f"error: a job ended without a result, see {sweep / '.submitit'}/; others may "
                f"still run, and when they have ended, {again}"
            )
        else:
            raise
        print(line, file=sys.stderr)
        sys.exit(code)
    finally:  # an interrupted sweep skips `on_multirun_end`
        SWEEP.end()


def failures_in_lines(sweep: Path) -> str:
    """Return a line for each cause of failed runs, with the first run that it ended."""
    runs: dict[str, list[str]] = {}
    for path in sorted(sweep.iterdir()):
        if (cause := RunDirectory(path).read_failure()) is not None:
            runs.setdefault(cause, []).append(path.name)
    return "\n".join(
        f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {cause}"
        for cause, names in runs.items()
    )


def _name(hydra: HydraConf) -> str:
    return str(hydra.runtime.choices["hydra/launcher"])
