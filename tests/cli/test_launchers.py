"""Sweeps with real launchers: parallel, labelled, and complete after jobs were killed."""

import csv
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from documents import PLUGIN_PAGE, Page
from omegaconf import OmegaConf
from tiny_study import record_failure
from tiny_training import ROOT, SMALL, corpus_overrides, write_corpus

from seq2seq.checks import counted
from seq2seq.cli import sweep
from seq2seq.cli.sweep import launched_job, prepare_launcher, stopped_sweeps_in_one_line
from seq2seq.files.lock import LOCK_NAME
from seq2seq.training.log import RunLog

SWEEP = "hydra.sweep.dir=swept"


def launcher_config(name, path="swept"):
    hydra = {"runtime": {"choices": {"hydra/launcher": name}}, "sweep": {"dir": path}}
    return OmegaConf.create({"hydra": hydra})


def start(command, cwd):
    without = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    with (cwd / "err").open("w") as err:
        return subprocess.Popen(command, cwd=cwd, stderr=err, env=without, start_new_session=True)


def results(path):
    found = sorted((path / "swept").glob("*/results.json"))
    return {each.parent.name: json.loads(each.read_text()) for each in found}


def leaderboard(path):
    with (path / "swept" / "leaderboard.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_submitit_runs_jobs_in_processes_of_their_own(train, corpus, work, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")

    code, _, err = train("-m", *corpus, SWEEP, "hydra/launcher=submitit_local", "seed=1,2")

    assert code == 0, err
    assert {each["device"] for each in results(work).values()} == {"cpu, 1 thread"}
    assert [row["failure"] for row in leaderboard(work)] == ["", ""]
    assert "submitit_local: the jobs log to swept/.submitit/\n" in err
    logs = [path.read_text() for path in (work / "swept" / ".submitit").glob("*/*_log.err")]
    assert sum("0-files-additive-seed-1: update" in log for log in logs) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # at the import of optuna
def test_a_search_maximises_the_validation_score_and_chooses_the_same_values_again(
    train, corpus, work
):
    # The sizes of the corpus are fixed; what is left to choose are learning rate and dropout.
    search = ["training.threads=1", "hparams_search=optuna", "hydra.sweeper.n_trials=2"]
    search = [*corpus, SWEEP, *search, "resume=auto"]
    code, _, err = train(*search)

    assert code == 0, err
    first = results(work)
    assert len(first) == 2
    best = OmegaConf.load(work / "swept" / "optimization_results.yaml")
    scores = [(each["valid"]["bleu"], each["valid"]["loss"]) for each in first.values()]
    # A BLEU below 1 compares nothing.
    assert best.best_value == max(bleu if bleu >= 1 else -loss for bleu, loss in scores)
    assert set(best.best_params) == {"training.optimizer.learning_rate", "model.dropout"}
    assert set(best.best_params) <= set(leaderboard(work)[0])
    assert all(f"-{key}-" in name for name in first for key in best.best_params)
    code, _, err = train(*search)
    assert code == 0, err
    again = results(work)
    assert [each["valid"] for each in again.values()] == [each["valid"] for each in first.values()]
    assert list(again) == list(first)


def running_jobs(path):
    """Return the processes that hold the locks of run directories."""
    pids = []
    for lock in path.glob(f"swept/*/{LOCK_NAME}"):
        try:
            owner = re.search(r"process (\d+)", lock.read_text())
        except FileNotFoundError:
            continue
        if owner and Path(f"/proc/{owner[1]}").exists():
            pids.append(int(owner[1]))
    return pids


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """Kill the processes of two of four jobs, repeat the command; return what it wrote."""
    folder = tmp_path_factory.mktemp("killed")
    write_corpus(folder / "text")
    (folder / "cosine.py").write_text(Page(PLUGIN_PAGE).blocks("python")[0], encoding="utf-8")
    given = ("training.max_epochs", "attention.size")
    small = [each for each in SMALL if not each.startswith(given)]
    small += ["plugins=[cosine.py]", "attention=cosine"]
    sweep = [sys.executable, str(ROOT / "train.py"), "-m", *corpus_overrides(folder / "text")]
    sweep += [*small, SWEEP, "training.max_epochs=8", "seed=range(4)", "resume=auto"]
    sweep += ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    process = start(sweep, folder)
    deadline = time.monotonic() + 120
    while len(jobs := running_jobs(folder)) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, (folder / "err").read_text()
        time.sleep(0.01)
    assert len(jobs) == 2
    for job in jobs:
        os.kill(job, signal.SIGKILL)
    assert process.wait(timeout=120) == 1
    first = (folder / "err").read_text()
    num_first = len(results(folder))
    assert start(sweep, folder).wait(timeout=120) == 0
    return folder, num_first, first, (folder / "err").read_text()


@pytest.mark.slow
def test_four_jobs_of_which_two_are_killed_end_in_four_results(completed):
    folder, num_first, first, _ = completed

    assert "error: the process of a job was killed, perhaps because memory ran out; " in first
    assert "repeat the command with hydra.sweep.dir=swept resume=auto" in first
    assert "leaked semaphore" not in first
    assert num_first <= 2
    assert len(results(folder)) == 4
    assert [row["failure"] for row in leaderboard(folder)] == [""] * 4


@pytest.mark.slow
def test_joblib_labels_the_lines_of_jobs_and_divides_the_threads(completed):
    folder, _, first, second = completed

    found = results(folder)
    assert [name[-7:] for name in found] == [f"-seed-{seed}" for seed in range(4)]
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert {each["device"] for each in found.values()} == {f"cpu, {counted(threads, 'thread')}"}
    for name in found:
        assert re.search(rf"^{name}: update \d+, ", first + second, re.MULTILINE)
    assert not re.search(r"^update ", first + second, re.MULTILINE)


ORPHAN = """
import os, signal, sys, time
from seq2seq.cli import sweep
sweep._POLL_SECONDS = 0.05
if os.fork():
    time.sleep(0.5)
    os._exit(0)
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
with sweep._stopping_with_parent():
    while not stopped:
        time.sleep(0.05)
    open(sys.argv[1], "w").close()
"""


@pytest.mark.slow
def test_a_job_stops_when_its_sweep_has_ended(tmp_path):
    subprocess.run(
        [sys.executable, "-c", ORPHAN, str(tmp_path / "stopped")], check=True, cwd=ROOT, timeout=60
    )

    deadline = time.monotonic() + 30
    while not (tmp_path / "stopped").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "stopped").exists()


@pytest.mark.parametrize(("launcher", "label"), [("basic", ""), ("submitit_slurm", "0-dot: ")])
def test_lines_are_labelled_unless_the_runs_follow_each_other(launcher, label, monkeypatch, capsys):
    config = launcher_config(launcher)
    monkeypatch.setattr(sweep.HydraConfig, "get", lambda: config.hydra)

    with launched_job("0-dot"), RunLog(quiet=False):
        logging.getLogger("seq2seq.of_a_test").info("first")

    assert capsys.readouterr().err == f"{label}first\n"


def test_jobs_of_submitit_local_get_one_thread_unless_the_user_gives_more(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    prepare_launcher("basic", Path("swept"))
    assert "OMP_NUM_THREADS" not in os.environ
    prepare_launcher("submitit_local", Path("swept"))
    assert os.environ["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    prepare_launcher("submitit_local", Path("swept"))
    assert os.environ["OMP_NUM_THREADS"] == "2"


class LostJobError(RuntimeError):
    """Named like an error of submitit."""


class FailedJobError(RuntimeError):
    """Named like another one."""


LostJobError.__module__ = FailedJobError.__module__ = "submitit.core.utils"
NO_SLURM = 'Could not detect "srun", are you indeed on a slurm cluster?'


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BrokenExecutor(), 1, "error: the process of a job was killed, perhaps because memory ran"),
        (LostJobError(), 1, "error: a job ended without a result, see there/.submitit/; others "),
        (FailedJobError("sbatch:\n bad"), 1, "error: no job was started: sbatch: bad; repeat the"),
        (RuntimeError(NO_SLURM), 1, f"error: no job was started: {NO_SLURM}; repeat the command"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C; to continue, repeat the command"),
    ],
)
def test_a_stopped_sweep_is_one_line_that_says_how_to_go_on(error, code, line, capsys):
    with pytest.raises(SystemExit, match=str(code)), stopped_sweeps_in_one_line():
        sweep.SWEEP.directory = Path("there")
        raise error

    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.endswith("repeat the command with hydra.sweep.dir=there resume=auto\n")
    assert err.count("\n") == 1


def test_a_search_without_results_names_each_cause_once(tmp_path, capsys):
    for number, cause in enumerate(["out of memory", "no such file", "out of memory"]):
        record_failure(tmp_path / f"{number}-dot", cause)

    with pytest.raises(SystemExit, match="1"), stopped_sweeps_in_one_line():
        sweep.SWEEP.directory = tmp_path
        raise ValueError("No trials are completed yet.")

    assert capsys.readouterr().err.splitlines() == [
        "error: no run has results",
        "0-dot and 1 more: out of memory",
        "1-dot: no such file",
    ]


def test_another_error_of_a_sweep_is_left_alone():
    with pytest.raises(RuntimeError, match="of the program"), stopped_sweeps_in_one_line():
        sweep.SWEEP.directory = Path("there")
        raise RuntimeError("of the program")
