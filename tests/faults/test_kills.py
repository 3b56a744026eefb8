"""Runs killed by SIGKILL at random moments and resumed equal a run that nothing disturbed.

FAULTS_KILLS is the number of kills of runs of one process, and of runs of two; each is followed by
a run with resume=auto, to the end or to the next kill. Half of them come at a random time, in any
process, half at a random change of a file, in the process that writes. A kill that comes after the
results disturbs nothing, so it is not counted.
"""

import os
import random
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import pytest
from fault_processes import (
    Prepare,
    arguments,
    count_changes,
    finish_several,
    kill_after,
    kill_at,
    start_server,
    start_several,
)
from same_run import assert_same_run

from seq2seq.files.atomic import is_temporary
from seq2seq.files.lock import LOCK_NAME

NUM_KILLS = int(os.environ.get("FAULTS_KILLS", "2"))


class Undisturbed(NamedTuple):
    """A run to compare with, and the moments at which it can be killed."""

    directory: Path
    seconds: float
    num_changes: int


@dataclass
class Disturbed:
    """A run that is killed again and again."""

    place: Path
    corpus: Path
    num_processes: int
    num_starts: int = 0

    @property
    def directory(self) -> Path:
        return self.place / "runs" / "tiny"

    def start(self, prepare: Prepare | None = None) -> list[ForkServerProcess]:
        self.num_starts += 1
        given = arguments(self.corpus, self.place, "resume=auto")
        output = self.place / f"output{self.num_starts}"
        return start_several(self.num_processes, given, output, prepare)

    def kill(self, draw: random.Random, longest: Undisturbed) -> bool:
        """Start or resume the run and kill a process; return whether that was before the end."""
        if draw.random() < 0.5:
            processes = self.start()
            kill_after(draw.uniform(0, longest.seconds), draw.choice(processes))
        else:
            number = draw.randint(1, longest.num_changes)
            processes = self.start(partial(kill_at, number, self.place))
        finish_several(processes)
        for path in self.place.glob("cache/**/*"):  # a cache keeps what is younger than a day
            os.utime(path, (0, 0))
        return not (self.directory / "results.json").exists()

    def finish(self, prepare: Prepare | None = None) -> None:
        code = finish_several(self.start(prepare))
        assert code == 0, (self.place / f"output{self.num_starts}").read_text()


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def num_processes(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, corpus: Path, num_processes: int
) -> Undisturbed:
    run = Disturbed(tmp_path_factory.mktemp("undisturbed"), corpus, num_processes)
    changes = run.place / "changes"
    start_server()
    started = time.monotonic()
    run.finish(partial(count_changes, changes, run.place))
    seconds = time.monotonic() - started
    return Undisturbed(run.directory, seconds, changes.stat().st_size)


@pytest.mark.slow
def test_killed_runs_equal_an_undisturbed_one(
    tmp_path: Path, corpus: Path, undisturbed: Undisturbed, num_processes: int
) -> None:
    draw = random.Random(1)
    kills: list[bool] = []
    while sum(kills) < NUM_KILLS:
        run = Disturbed(tmp_path / str(len(kills)), corpus, num_processes)
        run.place.mkdir()
        kills += [run.kill(draw, undisturbed) for _ in range(draw.randint(1, 3))]
        run.finish()

        assert_same_run(undisturbed.directory, run.directory)
        assert leftovers(run.place) == []
        print(f"\n{len(kills)} kills, {sum(kills)} before the results", flush=True)


def leftovers(place: Path) -> list[Path]:
    """Return the unfinished files and locks in the run directory and the cache."""
    return [path for path in place.rglob("*") if is_temporary(path) or path.name == LOCK_NAME]
