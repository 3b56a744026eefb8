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
from omegaconf import OmegaConf
from tiny_training import ROOT, SMALL, corpus_overrides, write_corpus

from seq2seq.cli import launchers
from seq2seq.cli.launchers import launched_job, prepare_launcher, stopped_sweeps_in_one_line
from seq2seq.training.monitoring.log import RunLog

SWEEP = "swept"


def launcher_config(name, path="swept"):
    hydra = {"runtime": {"choices": {"hydra/launcher": name}}, "sweep": {"dir": path}}
    return OmegaConf.create({"hydra": hydra})


def sweep_command(folder):
    """Return the arguments of a sweep over a small corpus."""
    write_corpus(folder / "text")
    script = [sys.executable, str(ROOT / "train.py"), "-m"]
    return [*script, *corpus_overrides(folder / "text"), *SMALL, f"hydra.sweep.dir={SWEEP}"]


@pytest.fixture
def command(tmp_path):
    return sweep_command(tmp_path)


def start(command, cwd):
    without = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    with (cwd / "err").open("w") as err:
        return subprocess.Popen(command, cwd=cwd, stderr=err, env=without, start_new_session=True)


def run(command, cwd):
    """Run a command to its end; return its code and what it wrote to stderr."""
    code = start(command, cwd).wait(timeout=120)
    return code, (cwd / "err").read_text()


def results(path):
    found = sorted((path / SWEEP).glob("*/results.json"))
    return {each.parent.name: json.loads(each.read_text()) for each in found}


def leaderboard(path):
    with (path / SWEEP / "leaderboard.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_submitit_runs_jobs_in_processes_of_their_own(command, tmp_path):
    arguments = ["hydra/launcher=submitit_local", "seed=1,2"]
    code, err = run([*command, *arguments], tmp_path)

    assert code == 0, err
    assert {each["device"] for each in results(tmp_path).values()} == {"cpu, 1 threads"}
    assert [row["failure"] for row in leaderboard(tmp_path)] == ["", ""]
    assert f"submitit_local: the jobs log to {SWEEP}/.submitit/\n" in err
    logs = [path.read_text() for path in (tmp_path / SWEEP / ".submitit").glob("*/*_log.err")]
    assert sum("0-files-additive-seed-1: update" in log for log in logs) == 1


@pytest.mark.slow
def test_a_search_maximises_the_validation_score_and_chooses_the_same_values_again(
    command, tmp_path
):
    # The sizes of the command are fixed; what is left to choose are learning rate and dropout.
    search = [each for each in command if each != "-m"]
    search += [
        "training.threads=1",
        "hparams_search=optuna",
        "hydra.sweeper.n_trials=2",
        "resume=auto",
    ]
    code, err = run(search, tmp_path)

    assert code == 0, err
    first = results(tmp_path)
    assert len(first) == 2
    best = OmegaConf.load(tmp_path / SWEEP / "optimization_results.yaml")
    scores = [(each["valid"]["bleu"], each["valid"]["loss"]) for each in first.values()]
    # A BLEU below 1 compares nothing.
    assert best.best_value == max(bleu if bleu >= 1 else -loss for bleu, loss in scores)
    assert set(best.best_params) == {"training.optimizer.learning_rate", "data.dropout"}
    assert set(best.best_params) <= set(leaderboard(tmp_path)[0])
    code, err = run(search, tmp_path)
    assert code == 0, err
    again = results(tmp_path)
    assert [each["valid"] for each in again.values()] == [each["valid"] for each in first.values()]
    assert list(again) == list(first)


def running_jobs(path):
    """Return the processes that hold the locks of run directories."""
    pids = []
    for lock in path.glob(f"{SWEEP}/*/.lock"):
        try:
            owner = re.search(r"process (\d+)", lock.read_text())
        except FileNotFoundError:
            continue
        if owner and Path(f"/proc/{owner[1]}").exists():
            pids.append(int(owner[1]))
    return pids


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """Kill the processes of three of ten jobs, repeat the command; return what it wrote."""
    folder = tmp_path_factory.mktemp("killed")
    long = [each for each in sweep_command(folder) if not each.startswith("training.max_epochs=")]
    sweep = [
        *long,
        "training.max_epochs=8",
        "seed=range(10)",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=3",
        "resume=auto",
    ]
    process = start(sweep, folder)
    deadline = time.monotonic() + 120
    while len(jobs := running_jobs(folder)) < 3 and time.monotonic() < deadline:
        assert process.poll() is None, (folder / "err").read_text()
        time.sleep(0.01)
    assert len(jobs) == 3
    for job in jobs:
        os.kill(job, signal.SIGKILL)
    assert process.wait(timeout=120) == 1
    first = (folder / "err").read_text()
    num_first = len(results(folder))
    code, second = run(sweep, folder)
    assert code == 0, second
    return folder, num_first, first, second


@pytest.mark.slow
def test_ten_jobs_of_which_three_are_killed_end_in_ten_results(completed):
    folder, num_first, first, _ = completed

    assert "error: the process of a job was killed, perhaps because memory ran out; " in first
    assert f"repeat the command with hydra.sweep.dir={SWEEP} resume=auto" in first
    assert "leaked semaphore" not in first
    assert num_first <= 7
    assert len(results(folder)) == 10
    assert [row["failure"] for row in leaderboard(folder)] == [""] * 10


@pytest.mark.slow
def test_joblib_labels_the_lines_of_jobs_and_divides_the_threads(completed):
    folder, _, first, second = completed

    found = results(folder)
    assert [name[-7:] for name in found] == [f"-seed-{seed}" for seed in range(10)]
    threads = max(1, len(os.sched_getaffinity(0)) // 3)
    assert {each["device"] for each in found.values()} == {f"cpu, {threads} threads"}
    for name in found:
        assert re.search(rf"^{name}: update \d+, ", first + second, re.MULTILINE)
    assert not re.search(r"^update ", first + second, re.MULTILINE)


ORPHAN = """
import os, signal, sys, time
from seq2seq.cli import launchers
launchers._POLL_SECONDS = 0.05
if os.fork():
    time.sleep(0.5)
    os._exit(0)
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
with launchers._stopping_with_parent():
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
    monkeypatch.setattr(launchers.HydraConfig, "get", lambda: config.hydra)

    with launched_job("0-dot"), RunLog(quiet=False):
        logging.getLogger("seq2seq.of_a_test").info("first")

    assert capsys.readouterr().err == f"{label}first\n"


def test_jobs_of_submitit_local_get_one_thread_unless_the_user_gives_more(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    prepare_launcher(launcher_config("basic"))
    assert "OMP_NUM_THREADS" not in os.environ
    prepare_launcher(launcher_config("submitit_local"))
    assert os.environ["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    prepare_launcher(launcher_config("submitit_local"))
    assert os.environ["OMP_NUM_THREADS"] == "2"


class LostJobError(RuntimeError):
    """Named like an error of submitit."""


LostJobError.__module__ = "submitit.core.utils"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BrokenExecutor(), "the process of a job was killed, perhaps because memory ran out; "),
        (LostJobError(), "a job ended without a result, see there/.submitit/; others may still"),
    ],
)
def test_a_lost_job_is_one_line_that_says_how_to_go_on(error, line, capsys):
    with pytest.raises(SystemExit) as end, stopped_sweeps_in_one_line():
        prepare_launcher(launcher_config("basic", "there"))
        raise error

    assert end.value.code == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {line}")
    assert err.endswith("repeat the command with hydra.sweep.dir=there resume=auto\n")


def test_another_error_of_a_sweep_is_left_alone():
    with pytest.raises(RuntimeError, match="of the program"), stopped_sweeps_in_one_line():
        prepare_launcher(launcher_config("basic", "there"))
        raise RuntimeError("of the program")


def test_ctrl_c_in_a_sweep_says_how_to_continue_it(capsys):
    with pytest.raises(SystemExit, match="130"), stopped_sweeps_in_one_line():
        prepare_launcher(launcher_config("joblib", "there"))
        raise KeyboardInterrupt

    line = (
        "stopped by Ctrl-C; to continue, repeat the command with hydra.sweep.dir=there resume=auto"
    )
    assert capsys.readouterr().err == f"{line}\n"


def test_ctrl_c_in_a_single_run_is_left_to_the_command():
    with pytest.raises(KeyboardInterrupt), stopped_sweeps_in_one_line():
        raise KeyboardInterrupt
