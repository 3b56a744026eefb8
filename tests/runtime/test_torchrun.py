"""A process reports its error in turn, and torchrun repeats it."""

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from seq2seq.runtime.torchrun import LostProcessError, lost_processes_named, report_failure


@pytest.fixture
def report(monkeypatch, tmp_path, capsys):
    """Return a function that reports an error in a process; it returns the line and the wait."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    def report_in(rank: int, local_rank: int, *, is_consequence: bool = False) -> tuple[str, float]:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        waits.clear()
        report_failure("bad", is_consequence=is_consequence)
        return capsys.readouterr().err, sum(waits)

    return report_in


def test_the_first_process_reports_an_error_that_all_have(report):
    assert report(0, 0) == ("error: bad\n", 0)
    of_another_machine, second = report(2, 0), report(3, 1)

    assert of_another_machine[0] == "error: process 2 on host: bad\n"
    assert 0 < of_another_machine[1] < second[1]


def test_a_process_that_lost_another_leaves_it_the_report(report):
    line, wait = report(0, 0, is_consequence=True)

    assert line == "error: bad; its own lines or those of torchrun say why\n"
    assert wait > report(3, 1)[1]


def test_torchrun_reads_the_error(report, tmp_path):
    report(1, 1)

    path = str(tmp_path / "error.json")
    failure = ProcessFailure(local_rank=1, pid=1, exitcode=2, error_file=path)
    assert failure.message == "process 1 on host: bad"
    assert failure.timestamp > 0


def test_the_error_of_an_exchange_names_a_lost_process():
    with (
        pytest.raises(LostProcessError, match=r"another process of the run has ended: closed$"),
        lost_processes_named(),
    ):
        raise RuntimeError("closed\nby peer")
