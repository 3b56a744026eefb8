import dataclasses
import logging
import sys

from seq2seq.evaluation.metrics import Scores
from seq2seq.training.monitoring.log import RunLog, describe_validation, progress_bar
from seq2seq.training.progress import Progress
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


def test_the_bar_shows_the_percentage_of_the_budget(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with progress_bar(25.0, quiet=False) as bar:
        bar.update(25.0)

    shown = capsys.readouterr().err
    assert "training  25% |" in shown
    assert "training  50% |" in shown


def test_there_is_no_bar_without_a_terminal_or_in_other_processes(monkeypatch, capsys):
    for is_terminal, quiet in ((False, False), (True, True)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=is_terminal: shown)

        with progress_bar(25.0, quiet=quiet) as bar:
            bar.update(25.0)

    assert capsys.readouterr().err == ""
