import dataclasses
import logging
import sys
from datetime import datetime

import pytest

from seq2seq.config.schema import load_config
from seq2seq.evaluation.metrics import Scores
from seq2seq.training.monitoring import log as log_module
from seq2seq.training.monitoring.log import (
    ProgressDisplay,
    RunLog,
    describe_estimate,
    describe_seconds,
    describe_validation,
)
from seq2seq.training.progress import Interval, Progress, UpdateResult
from seq2seq.training.validation import Alignment, Evaluation

logger = logging.getLogger("seq2seq.of_a_test")


def test_the_file_gets_earlier_lines_too(tmp_path, capsys):
    with RunLog(quiet=False) as log:
        logger.info("first %d", 1)
        log.open(tmp_path / "train.log")
        logger.warning("second")

    lines = (tmp_path / "train.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["INFO first 1", "WARNING second"]
    assert capsys.readouterr().err == "first 1\nwarning: second\n"


def test_nothing_goes_to_standard_output(tmp_path, capsys):
    with RunLog(quiet=False):
        logger.info("first")

    assert capsys.readouterr().out == ""


def test_a_quiet_log_writes_only_to_the_file(tmp_path, capsys):
    with RunLog(quiet=True) as log:
        log.open(tmp_path / "train.log")
        logger.info("first")

    assert capsys.readouterr().err == ""
    assert "first" in (tmp_path / "train.log").read_text()


def test_lines_after_the_run_are_not_logged(tmp_path, capsys):
    before = list(logging.getLogger("seq2seq").handlers)

    with RunLog(quiet=False) as log:
        log.open(tmp_path / "train.log")
    logger.info("too late")

    assert logging.getLogger("seq2seq").handlers == before
    assert capsys.readouterr().err == ""
    assert (tmp_path / "train.log").read_text() == ""


def test_an_existing_file_is_continued(tmp_path):
    for word in ("first", "second"):
        with RunLog(quiet=True) as log:
            log.open(tmp_path / "train.log")
            logger.info(word)

    assert len((tmp_path / "train.log").read_text().splitlines()) == 2


def test_a_validation_is_described_in_one_line():
    progress = Progress(update=30, epoch=2, updates_of_epoch=3, updates_per_epoch=6, seconds=90.0)
    evaluation = Evaluation(
        scores=Scores(bleu=12.34, chrf=45.67, ter=None, signature="nrefs:1"),
        loss=1.5,
        heads=[],
        alignment=Alignment(0.25, 0.75),
        hypotheses=[],
        translations=[],
    )

    line = describe_validation(progress, evaluation)

    assert line == (
        "update 30, epoch 2.5, 1.5 min, valid perplexity 4.48, BLEU 12.3, chrF 45.7, AER 0.250"
    )
    unaligned = dataclasses.replace(evaluation, alignment=None)
    assert "AER" not in describe_validation(progress, unaligned)


def test_the_packages_logger_is_restored(tmp_path):
    package = logging.getLogger("seq2seq")
    before = (package.level, list(package.handlers))

    with RunLog(quiet=False) as log:
        log.open(tmp_path / "train.log")
        during = package.level

    assert during == logging.INFO
    assert (package.level, list(package.handlers)) == before


NOON = datetime(2026, 5, 4, 12, 0)


def budget(**values):
    given = {"max_epochs": None, "max_updates": None, "max_minutes": None} | values
    overrides = [
        f"training.{key}={'null' if each is None else each}" for key, each in given.items()
    ]
    return load_config(*overrides).training


def estimate(config, progress=None, *, seconds_per_update=0.5):
    return describe_estimate(
        config,
        progress or Progress(updates_per_epoch=276),
        seconds_per_update=seconds_per_update,
        now=NOON,
    )


def test_the_end_of_the_epochs_is_estimated():
    # An epoch of 276 updates of 0.5 s takes 138 s, 15 epochs 34.5 minutes.
    assert estimate(budget(max_epochs=15)) == (
        "an epoch takes about 2.3 minutes, without validation; 15 epochs end at about 12:34"
    )


def test_a_resumed_run_has_only_the_rest_of_its_budget_left():
    progress = Progress(epoch=10, updates_of_epoch=138, updates_per_epoch=276)

    # 4.5 epochs of 138 s are 10.35 minutes.
    assert estimate(budget(max_epochs=15), progress).endswith("15 epochs end at about 12:10")


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ({"max_updates": 1200}, "1,200 updates end at about 12:10"),
        ({"max_minutes": 40}, "training.max_minutes=40 ends at about 12:40"),
        ({"max_epochs": 15, "max_minutes": 30}, "training.max_minutes=30 ends at about 12:30"),
        ({"max_epochs": 15, "max_minutes": 40}, "15 epochs end at about 12:34"),
        ({"max_epochs": 1, "max_updates": 276_000}, "1 epoch ends at about 12:02"),
        ({"max_updates": 120_000}, "120,000 updates end at about 04:40 on 2026-05-05"),
        ({"max_minutes": 1e10}, "training.max_minutes=1e+10 ends at about 05:46 on 2343-03-25"),
    ],
)
def test_the_end_is_that_of_the_budget_that_is_used_up_first(values, end):
    assert estimate(budget(**values)).endswith(f"; {end}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.6, "1 second"),
        (45.2, "45 seconds"),
        (138, "2.3 minutes"),
        (5399, "90.0 minutes"),
        (9000, "2.5 hours"),
    ],
)
def test_times_are_described_in_a_fitting_unit(seconds, text):
    assert describe_seconds(seconds) == text


class Clock:
    """A clock that advances only when told to."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


class Run:
    """A run whose updates take a given time, shown to a display."""

    def __init__(self, monkeypatch, config, progress=None, *, quiet=False):
        self.clock = Clock()
        monkeypatch.setattr(log_module, "time", self.clock)
        self.progress = progress or Progress(updates_per_epoch=100)
        self.display = ProgressDisplay(config, self.progress, quiet=quiet)

    def update(self, *, loss, num_tokens, seconds, new_interval=False):
        self.clock.seconds += seconds
        result = UpdateResult({"loss": (loss * num_tokens, num_tokens)}, 1.0)
        self.progress.count_update(result, num_tokens=num_tokens, seconds=seconds)
        self.display.update(self.progress)
        if new_interval:
            self.progress.interval = Interval()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="seq2seq")
    return lambda: [record.getMessage() for record in caplog.records]


def test_without_a_terminal_a_line_comes_every_30_seconds(monkeypatch, lines):
    monkeypatch.setattr(log_module, "ESTIMATE_SECONDS", 1e9)
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


def test_a_resumed_run_counts_from_where_it_begins(monkeypatch, lines):
    before = {"target_tokens": 5000, "update_seconds": 50.0, "cross_entropy": 9000.0}
    progress = Progress(update=40, updates_per_epoch=100, **before)
    run = Run(monkeypatch, budget(max_updates=50), progress)

    run.update(loss=2.0, num_tokens=100, seconds=30.0)

    assert lines() == [
        "training 82%: update 41, epoch 0.0, loss 2.000, 3 tokens/s, 4.5 minutes left"
    ]


@pytest.mark.parametrize(("seconds", "after"), [(0.25, 51), (7.0, 4)])
def test_the_estimate_comes_once_after_50_updates_or_20_seconds(monkeypatch, lines, seconds, after):
    monkeypatch.setattr(log_module, "LINE_SECONDS", 1e9)
    run = Run(monkeypatch, budget(max_epochs=2))
    run.update(loss=1.0, num_tokens=10, seconds=1000.0)  # not representative

    for _ in range(after - 2):
        run.update(loss=1.0, num_tokens=10, seconds=seconds)
    assert lines() == []
    for _ in range(5):
        run.update(loss=1.0, num_tokens=10, seconds=seconds)

    [line] = lines()
    assert line.startswith(f"an epoch takes about {describe_seconds(100 * seconds)}, ")


def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch, lines, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = Run(monkeypatch, budget(max_updates=4))

    with run.display:
        run.update(loss=3.0, num_tokens=10, seconds=1.0)
        run.update(loss=1.0, num_tokens=10, seconds=1.0)

    shown = capsys.readouterr().err
    assert "training   0% |" in shown
    assert "training  50% |" in shown
    assert "loss 2.000, 10 tokens/s" in shown
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
