import io
import logging
import sys
from pathlib import Path

import pytest

from seq2seq.config.schema import load_config
from seq2seq.training import log as log_module
from seq2seq.training.log import ProgressDisplay, RunLog, describe_seconds
from seq2seq.training.progress import Interval, Progress, UpdateResult

logger = logging.getLogger("seq2seq.of_a_test")


def test_the_file_gets_earlier_lines_too(tmp_path, capsys):
    with RunLog(quiet=False) as log:
        logger.info("first %d", 1)
        log.open(tmp_path / "train.log")
        logger.warning("second")

    lines = (tmp_path / "train.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["INFO first 1", "WARNING second"]
    assert capsys.readouterr().err == "first 1\nwarning: second\n"


def test_a_quiet_log_writes_only_to_the_file_which_is_continued(tmp_path, capsys):
    for word in ("first", "second"):
        with RunLog(quiet=True) as log:
            log.open(tmp_path / "train.log")
            logger.info(word)

    assert capsys.readouterr().err == ""
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert [line.split()[-1] for line in lines] == ["first", "second"]


class Terminal(io.StringIO):
    """A terminal that may go."""

    has_gone = False

    def isatty(self):
        return True

    def write(self, text):
        if self.has_gone:
            raise BrokenPipeError
        return len(text)


def test_a_console_that_has_gone_stops_neither_the_run_nor_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    run = Run(monkeypatch, budget(max_updates=200), quiet=False)
    with RunLog(quiet=False) as log:
        log.open(tmp_path / "train.log")
        sys.stderr.has_gone = True
        logger.info("first")
        with run.display:
            for _ in range(60):
                run.update(loss=3.0, num_tokens=10, seconds=10.0)
        logger.info("last")

    assert (tmp_path / "train.log").read_text().endswith("INFO last\n")


def test_a_run_without_standard_error_writes_nothing_to_standard_output(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "stderr", None)
    config = budget(max_updates=2)

    with RunLog(quiet=False) as log, ProgressDisplay(config, Progress(), quiet=False):
        log.open(tmp_path / "train.log")
        logger.info("first")
    sys.stderr.close()

    assert capsys.readouterr().out == ""
    assert "first" in (tmp_path / "train.log").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_the_packages_logger_is_restored_after_a_full_disk():
    package = logging.getLogger("seq2seq")
    before = (package.level, list(package.handlers))

    with pytest.raises(OSError, match="No space left"), RunLog(quiet=False) as log:
        log.open(Path("/dev/full"))
        logger.info("lost")

    assert (package.level, list(package.handlers)) == before


def budget(**values):
    given = {"max_epochs": None, "max_updates": None, "max_minutes": None} | values
    overrides = [
        f"training.{key}={'null' if each is None else each}" for key, each in given.items()
    ]
    return load_config(*overrides).training


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45.2, "45 seconds"),
        (90, "1.5 minutes"),
        (138, "2.3 minutes"),
        (5399, "90.0 minutes"),
        (5400, "1.5 hours"),
        (9000, "2.5 hours"),
    ],
)
def test_times_are_described_in_a_fitting_unit(seconds, text):
    assert describe_seconds(seconds) == text


class Run:
    """A run whose updates take a given time, shown to a display."""

    def __init__(self, monkeypatch, config, progress=None, *, quiet=False):
        self.now = 0.0
        monkeypatch.setattr(log_module.time, "monotonic", lambda: self.now)
        self.progress = progress or Progress(updates_per_epoch=100)
        self.display = ProgressDisplay(config, self.progress, quiet=quiet)

    def update(self, *, loss, num_tokens, seconds, new_interval=False):
        self.now += seconds
        self.progress.seconds += seconds
        losses = {"loss": (loss * num_tokens, num_tokens)}
        result = UpdateResult(losses, 1.0, num_tokens, seconds)
        self.progress.count_update(result)
        self.display.update(self.progress, result)
        if new_interval:
            self.progress.interval = Interval()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="seq2seq")
    return lambda: [record.getMessage() for record in caplog.records]


def test_without_a_terminal_a_line_comes_every_30_seconds(monkeypatch, lines):
    run = Run(monkeypatch, budget(max_updates=24))

    for loss, new_interval in ((4.0, False), (2.0, True), (1.0, False)):
        run.update(loss=loss, num_tokens=100, seconds=10.0, new_interval=new_interval)
    for _ in range(3):
        run.update(loss=0.5, num_tokens=40, seconds=10.0)

    # Losses are means over the tokens since the last line, whatever the interval of the curves.
    assert lines() == [
        "training 12%: update 3, epoch 0.0, loss 2.333, 10 tokens/s, 3.5 minutes left",
        "training 25%: update 6, epoch 0.1, loss 0.500, 4 tokens/s, 3.0 minutes left",
    ]


def test_the_speed_is_that_of_updates_alone(monkeypatch, lines):
    run = Run(monkeypatch, budget(max_updates=24))
    run.now += 30  # a validation

    run.update(loss=1.0, num_tokens=10, seconds=0.5)

    [line] = lines()
    assert " 20 tokens/s" in line


def test_a_resumed_run_counts_from_where_it_begins(monkeypatch, lines):
    before = {"target_tokens": 5000, "update_seconds": 50.0}
    progress = Progress(update=40, updates_per_epoch=100, **before)
    run = Run(monkeypatch, budget(max_updates=50), progress)

    run.update(loss=2.0, num_tokens=100, seconds=30.0)

    assert lines() == [
        "training 82%: update 41, epoch 0.0, loss 2.000, 3 tokens/s, 4.5 minutes left"
    ]


def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch, lines, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = Run(monkeypatch, budget(max_updates=4))

    with run.display:
        run.update(loss=3.0, num_tokens=10, seconds=1.0)
        run.update(loss=1.0, num_tokens=10, seconds=1.0)

    shown = capsys.readouterr().err
    assert "training   0% |" in shown
    assert "training  50% |" in shown
    assert "<00:00, loss 2.000, 10 tokens/s" in shown.replace("?", "00:00")
    assert lines() == []


@pytest.mark.parametrize(("is_terminal", "quiet"), [(True, True), (False, True), (False, False)])
def test_there_is_no_bar_without_a_terminal_and_nothing_in_quiet_processes(
    monkeypatch, lines, capsys, is_terminal, quiet
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    run = Run(monkeypatch, budget(max_updates=200), quiet=quiet)

    with run.display:
        for _ in range(60):
            run.update(loss=3.0, num_tokens=10, seconds=10.0)

    assert "|" not in capsys.readouterr().err
    assert (lines() == []) == quiet
