"""Runs of several processes that torchrun starts: killed, stopped, failing and in a sweep."""

import csv
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from same_run import assert_same_run
from tiny_training import SMALL, corpus_overrides, fits, saved_weights, tiny_run, write_corpus
from worker_processes import COMPARABLE, start_python

VERSION = tuple(int(number) for number in torch.__version__.split(".")[:2])
pytestmark = pytest.mark.slow

# 22 pairs in batches of 4 make 6 updates an epoch; validations follow updates 6 and 12.
OVERRIDES = (
    *COMPARABLE,
    "training.max_epochs=2",
    "training.log_every=2",
    "training.save_every_minutes=1e-9",
)
FAILING = "hydra.sweep.dir=failing"
SEPARATOR = "next step\n"


def start(folder: Path, *steps: dict, restarts: int = 0) -> subprocess.Popen[str]:
    (folder / "steps.json").write_text(json.dumps(steps))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = Path(__file__).with_name("processes_worker.py")
    arguments = [*torchrun, f"--max-restarts={restarts}", script, "steps.json"]
    return start_python(arguments, cwd=folder)


def run(folder: Path, *steps: dict, restarts: int = 0) -> tuple[int, str]:
    """Return the exit code of torchrun and all that was written to stderr."""
    process = start(folder, *steps, restarts=restarts)
    output, errors = process.communicate(timeout=150)
    assert output == "", output
    return process.returncode, errors


def command(text: Path, *overrides: str) -> dict:
    small = [each for each in SMALL if fits(each, overrides)]
    arguments = [*corpus_overrides(text), *small, f"checkpoint_dir='{text}/runs'", *OVERRIDES]
    return {"arguments": [*arguments, *overrides]}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def steps(text):
    """Train, sweep and fail in one start of two processes; return exit codes and stderr of each."""
    short = ("training.max_updates=2", "model.encoder.hidden_size=4")
    sweep = command(text, "attention=dot,none", *short)
    _, errors = run(
        text,
        command(text, "run_name=whole"),
        {"arguments": ["-m", *sweep["arguments"]]},
        {
            "arguments": ["-m", *sweep["arguments"], "attention=dot,none,uniform", FAILING],
            "full_disk": 1,
            "no_device": 2,
        },
    )
    codes = [json.loads((text / f"codes-{rank}.json").read_text()) for rank in (0, 1)]
    # The first process alone reports a sweep of which a run failed.
    assert (codes[0][:2], codes[1][2:]) == (codes[1][:2], [0]), errors
    return list(zip(codes[0], errors.split(SEPARATOR)[1:], strict=True))


@pytest.fixture(scope="module")
def whole(text, steps):
    """Return the directory of an undisturbed run of two processes."""
    return text / "runs" / "whole"


def test_a_sweep_of_several_processes_ends_in_a_full_leaderboard(text, steps):
    code, errors = steps[1]

    assert code == 0, errors
    [sweep] = (text / "runs").glob("sweep-*")  # all processes agree on its time
    with (sweep / "leaderboard.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["attention"] for row in rows} == {"dot", "none"}
    assert all(float(row["bleu"]) >= 0 for row in rows)
    assert (errors.count("\n0-files-dot: data="), errors.count("leaderboard.csv")) == (1, 1)


def test_failures_of_one_process_fail_their_runs_of_a_sweep_alone(text, steps):
    code, errors = steps[2]

    assert code == 1, errors
    with (text / "failing" / "leaderboard.csv").open() as file:
        failures = {row["attention"]: row["failure"] for row in csv.DictReader(file)}
    assert (failures["dot"], failures["uniform"]) == ("the disk is full", "")
    assert re.fullmatch(r"process 1 on \S+: no device for the second process", failures["none"])


@pytest.mark.parametrize(
    ("overrides", "worker", "line"),
    [
        (["training.max_epochs=-1"], {}, "training.max_epochs=-1 must be at least 1, or null"),
        ([], {"bad_data": True}, r"process 1 on \S+: the second process cannot read its data"),
    ],
)
def test_an_error_is_one_line_that_torchrun_repeats(tmp_path, text, overrides, worker, line):
    code, errors = run(tmp_path, {**command(text, "run_name=failed", *overrides), **worker})

    assert code == 1
    [error] = re.findall(r"^error: (.*)$", errors, re.MULTILINE)
    assert re.fullmatch(line, error)
    assert f" traceback : {error}\n" in errors.partition("Root Cause")[2]
    assert "Traceback" not in errors.partition("torch/distributed/elastic")[0]


@pytest.mark.skipif(VERSION < (2, 13), reason="a restarted group hangs with torch 2.6 and 2.7")
def test_a_run_killed_and_restarted_equals_an_undisturbed_one(text, whole):
    """The kill follows a save between validations."""
    step = {**command(text, "run_name=killed", "resume=auto"), "kill": [0, 0, 9]}

    code, errors = run(text, step, restarts=1)

    assert code == 0, errors
    assert re.findall(r"resumed after update (\d+)", errors) == ["8"]
    assert_same_run(whole, text / "runs" / "killed")


def test_a_dead_process_ends_the_run_and_another_number_of_processes_continues_it(text, whole):
    """Without dropout one process makes the updates of two, but for rounding."""
    step = {**command(text, "run_name=tiny"), "kill": [0, 1, 9]}
    started = time.monotonic()

    code, errors = run(text, step)

    assert code == 1
    assert time.monotonic() - started < 60
    assert errors.count("error: another process of the run has ended: ") <= 1
    assert re.search(r"Root Cause \(.*\n.*\n.*\n.*\n +rank +: 1 .*\n +exitcode +: -9 ", errors)
    tiny_run(text, *OVERRIDES, "resume=true")
    expected = saved_weights(whole / "last.pt")
    for name, value in saved_weights(text / "runs" / "tiny" / "last.pt").items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    ("wait", "update"),
    [({"wait_at": 3}, (3, 4)), ({"wait_in_batch": 1}, (6,)), ({"wait_in_batch": 7}, (12,))],
    ids=["an update", "a validation", "the final scoring"],
)
def test_ctrl_c_stops_all_processes_with_one_line(text, whole, wait, update):
    """torchrun passes the signal on to its processes."""
    small = command(text, "run_name=stopped", "overwrite=true")
    (text / "waiting-0").unlink(missing_ok=True)
    process = start(text, {**small, **wait})
    while not (text / "waiting-0").exists():
        time.sleep(0.05)

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    [line] = re.findall(r"^stopped by .*$", errors, re.MULTILINE)
    assert line == "stopped by Ctrl-C; to continue, repeat the command with resume=true"
    state = torch.load(text / "runs" / "stopped" / "last.pt", weights_only=True)["training"]
    assert state["progress"]["update"] in update
