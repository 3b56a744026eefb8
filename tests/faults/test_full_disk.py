"""A full or read-only disk ends a run in one line, wherever it is met, and nothing is half-written.

FAULTS_DISK is the number of places at which each error is tried, spread over the run.
"""

import errno
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest
import torch
from fault_processes import arguments, count_changes, fail_at, limit_file_size, train
from same_run import assert_same_run

from seq2seq.files.atomic import is_temporary

NUM_PLACES = int(os.environ.get("FAULTS_DISK", "1"))
SIZES = (2_000, 8_000, 20_000, 40_000)
"""Bytes of the largest file: more than the output of a run has, and less than a checkpoint."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> tuple[Path, int]:
    """Return the directory of a run, and the number of its changes to files."""
    place = tmp_path_factory.mktemp("undisturbed")
    changes = place / "changes"
    given = arguments(corpus, place)
    assert train(given, place / "log", partial(count_changes, changes, place)) == 0
    return place / "runs" / "tiny", changes.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(("number", "offset"), [(errno.ENOSPC, 0), (errno.EROFS, 1)])
def test_an_error_at_any_change_of_a_file_is_one_line(
    tmp_path: Path, corpus: Path, undisturbed: tuple[Path, int], number: int, offset: int
) -> None:
    """The places of one error lie between those of the other."""
    directory, num_changes = undisturbed
    for index in range(NUM_PLACES):
        place = tmp_path / str(index)
        place.mkdir()
        first = 1 + (2 * index + offset) * num_changes // (2 * NUM_PLACES)
        given, log = arguments(corpus, place, "resume=auto"), place / "log"

        if train(given, log, partial(fail_at, first, number, place)) != 0:
            assert_one_line(log.read_text(), place, os.strerror(number).lower())
            assert_whole(place)
        assert train(given, log) == 0, log.read_text()
        assert_same_run(directory, place / "runs" / "tiny")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES[:: max(1, len(SIZES) // NUM_PLACES)])
def test_a_disk_that_fills_while_a_file_is_written_is_one_line(
    tmp_path: Path, corpus: Path, undisturbed: tuple[Path, int], size: int
) -> None:
    given, log = arguments(corpus, tmp_path, "resume=auto"), tmp_path / "log"

    assert train(given, log, partial(limit_file_size, size)) == 2
    assert_one_line(log.read_text(), tmp_path, "file too large")
    assert_whole(tmp_path)
    assert train(given, log) == 0, log.read_text()
    assert_same_run(undisturbed[0], tmp_path / "runs" / "tiny")


def assert_one_line(output: str, place: Path, reason: str) -> None:
    """Check that the output ends in one line that names a path and the reason.

    The path may be that of temporary files, where py3langid unpacks its model.
    """
    *before, last = output.splitlines()
    assert last.startswith((f"error: {place}", f"error: {tempfile.gettempdir()}: ")), output
    assert f": {reason}" in last
    assert "Traceback" not in output
    assert "--- Logging error" not in output
    assert not any(line.startswith("error") for line in before)


def assert_whole(place: Path) -> None:
    """Check that every file is complete or has the name of an unfinished one."""
    for path in place.rglob("*.pt"):
        if not is_temporary(path):
            torch.load(path, weights_only=True)
    for path in place.rglob("results.json"):
        assert path.read_text().endswith("}\n")
