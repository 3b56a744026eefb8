"""A translation killed by SIGKILL at random moments and continued equals an undisturbed one.

FAULTS_KILLS is the number of kills. Half of them come at a random time, half at a random change of
a file. A kill that comes after the output is complete disturbs nothing, so it is not counted.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from fault_processes import CountChanges, KillAt, Prepare, finish, kill_after, start
from tiny_translator import SENTENCES, write_checkpoint

from seq2seq.files.atomic import is_temporary

NUM_KILLS = int(os.environ.get("FAULTS_KILLS", "2"))


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [1, 2])
def test_killed_translations_equal_an_undisturbed_one(tmp_path: Path, num_processes: int) -> None:
    draw = random.Random(1)
    log = tmp_path / "log"
    place = tmp_path / "place"
    place.mkdir()
    checkpoint, text = write_checkpoint(tmp_path / "run"), tmp_path / "a.de"
    text.write_text("".join(f"{line}\n" for line in SENTENCES * 100))
    given = [f"checkpoint={checkpoint}", f"input={text}", "decoding=greedy", "batch_size=4"]
    given += ["device=cpu", "threads=1", f"processes={num_processes}", "progress=false"]

    def finish_alone(output: Path, *more: str, prepare: Prepare | None = None) -> float:
        started = time.monotonic()
        process = start([*given, f"output={output}", *more], log, prepare, command="translate")
        assert finish(process) == 0, log.read_text()
        return time.monotonic() - started

    undisturbed, output = tmp_path / "whole", place / "big.en"
    finish_alone(undisturbed)  # the server has imported everything now
    changes = tmp_path / "changes"
    seconds = finish_alone(place / "counted", "resume=true", prepare=CountChanges(changes, place))
    (place / "counted").unlink()

    kept: Counter[int] = Counter()
    while kept.total() < NUM_KILLS:
        at_change = draw.random() < 0.5
        prepare = KillAt(draw.randint(1, changes.stat().st_size), place) if at_change else None
        process = start(
            [*given, f"output={output}", "resume=true"], log, prepare, command="translate"
        )
        if at_change:
            finish(process)
        else:
            kill_after(draw.uniform(0, seconds), process)
        if output.exists():  # complete, though the parts may not be deleted
            assert output.read_bytes() == undisturbed.read_bytes()
            finish_alone(output, "resume=true")
            output.unlink()
        else:
            kept[len(list(place.glob("big.en.partial/part-*")))] += 1
    finish_alone(output, "resume=true")

    print(f"\n{kept.total()} kills, with {sorted(kept)} finished parts")
    assert output.read_bytes() == undisturbed.read_bytes()
    assert [path.name for path in place.iterdir() if not is_temporary(path)] == ["big.en"]
