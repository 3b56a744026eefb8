import json
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_training import ROOT
from tiny_translator import BEAM, SENTENCES, make_translator, write_checkpoint

from seq2seq.inference.processes import open_processes

PATIENCE = 60
"""Seconds."""
WINDOWS = [[(line, "") for line in SENTENCES[first:]] for first in (0, 3, 7, 1, 5)]


def shown(translations):
    return [
        (found.text, found.score, found.attention_weights.tolist())
        for each in translations
        for found in each.hypotheses
    ]


def test_a_copy_that_was_pickled_translates_alike():
    translator = make_translator()

    copy = pickle.loads(pickle.dumps(translator))

    assert shown(copy(SENTENCES, BEAM)) == shown(translator(SENTENCES, BEAM))


@pytest.mark.slow
def test_several_processes_give_the_translations_of_one_in_order():
    translator = make_translator()
    counted = []

    with open_processes(
        translator, number=2, prepare=partial(torch.set_num_threads, 1)
    ) as processes:
        found = list(
            translator.translate_windows(
                WINDOWS, BEAM, batch_size=3, on_translation=counted.append, processes=processes
            )
        )

    assert shown(found) == shown(translator.translate_windows(WINDOWS, BEAM, batch_size=3))
    assert [each.source for each in counted] == [line for window in WINDOWS for line, _ in window]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.fixture
def started(checkpoint, tmp_path):
    """Start a translation in two processes; yield it, and those, after its first window."""
    (tmp_path / "a.de").write_text("".join(f"{line}\n" for line in SENTENCES * 5_000))
    keys = {"checkpoint": checkpoint, "input": "a.de", "output": "a.en", "batch_size": 1}
    given = [f"{key}={value}" for key, value in keys.items()]
    with subprocess.Popen(
        [sys.executable, ROOT / "translate.py", *given, "processes=2", "resume=true"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            state = tmp_path / "a.en.partial" / "state.json"
            wait_until(lambda: state.exists() and json.loads(state.read_bytes())["lines"])
            yield process, workers(process.pid)
        finally:
            process.kill()


def workers(pid):
    """Return the processes that translate; another child looks after their memory."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [each for each in children if b"spawn_main" in command_line(each)]


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def wait_until(happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_command(started, number):
    process, others = started
    assert len(others) == 2

    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)

    wait_until(lambda: not any(map(is_running, others)))
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}.get(number)
    if name:  # else the process that looks after the memory may say what it cleaned up
        assert errors == f"stopped by {name}\n"
    assert process.returncode == (128 + number if name else -number)


@linux
@pytest.mark.slow
def test_ctrl_c_in_the_processes_is_left_to_the_command(started):
    process, others = started

    for each in others:
        os.kill(each, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)

    assert errors == "stopped by Ctrl-C\n"


@linux
@pytest.mark.slow
def test_a_process_that_dies_ends_the_command_in_one_line(started):
    process, (first, second) = started

    os.kill(second, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert errors == (
        "error: one of the processes=2 has died, as happens if memory runs out; use fewer "
        "processes or a smaller batch_size\n"
    )
    wait_until(lambda: not is_running(first))
