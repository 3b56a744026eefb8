"""Processes of torchrun meet again after a restart, and report an error once."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache

import pytest
from torch.distributed import DistNetworkError, DistStoreError, HashStore

from seq2seq.runtime import torchrun
from seq2seq.runtime.torchrun import (
    LostProcessError,
    Report,
    agree_on_start,
    is_first_process,
    name_cause,
    report_failure,
    share_text,
)


def test_all_processes_agree_on_a_name_that_an_earlier_start_did_not_have() -> None:
    """The store holds the names of the earlier start until each process has written its own."""
    store, names = HashStore(), []
    for _ in range(2):
        with ThreadPoolExecutor() as pool:
            first = pool.submit(agree_on_start, store, 0, 3)
            time.sleep(0.05)  # it answers the names of the earlier start
            others = [pool.submit(agree_on_start, store, rank, 3) for rank in (2, 1)]
            [name] = {each.result(timeout=10) for each in (first, *others)}
            names.append(name)

    assert names[0] != names[1]


def test_a_process_that_does_not_start_is_named_although_an_earlier_one_did(monkeypatch) -> None:
    monkeypatch.setattr(torchrun, "_TIMEOUT", timedelta(seconds=0.2))
    store = HashStore()
    store.set("seq2seq/start/rank-1", "that of an earlier start")

    with pytest.raises(LostProcessError, match=r"no sign of process 1 within 0:00:00.200000"):
        agree_on_start(store, 0, 2)


@pytest.fixture
def failing_start(monkeypatch):
    """Make this the second of two processes, which cannot reach the first; return its attempts."""
    attempts = []

    def rendezvous(address, **keywords):
        attempts.append(address)
        raise DistNetworkError("timed out\nafter 300 s")

    module = sys.modules["torch.distributed.rendezvous"]
    monkeypatch.setattr(module, "rendezvous", rendezvous)
    monkeypatch.setattr(torchrun, "_connect", cache(torchrun._connect.__wrapped__))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name, value in {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "MASTER_ADDR": "first",
        "MASTER_PORT": "29500",
    }.items():
        monkeypatch.setenv(name, value)
    return attempts


def test_a_start_that_fails_under_torchrun_is_waited_for_once(failing_start) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionError, match=r"cannot meet at first:29500: timed out$"):
            share_text("name", "text")
    assert report_failure("lost", is_consequence=True).is_own
    assert len(failing_start) == 1


def test_a_start_without_torchrun_can_be_tried_again(failing_start, monkeypatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            torchrun.connect("part")

    assert len(failing_start) == 2


def test_a_process_that_another_one_waits_for_in_vain_is_lost(failing_start, monkeypatch) -> None:
    def disagree(*arguments):
        raise DistStoreError("no answer")

    module = sys.modules["torch.distributed.rendezvous"]
    monkeypatch.setattr(module, "rendezvous", lambda address, **_: iter([(HashStore(), 1, 2)]))
    monkeypatch.setattr(torchrun, "agree_on_start", disagree)

    with pytest.raises(LostProcessError, match="another process of the run has ended: no answer"):
        share_text("name", "text")


class Store(dict):
    """The store of torchrun, in this process."""

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        assert expected == ""
        return self.setdefault(key, value.encode())


@pytest.fixture
def processes(monkeypatch):
    """Return what makes this process the one of a rank, without waiting."""
    store, waits = Store(), []
    monkeypatch.setattr(torchrun, "_store", lambda: store)
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("WORLD_SIZE", "2")

    def become(rank: int) -> list[float]:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(torchrun, "_reports", iter(range(9)))
        waits.clear()
        return waits

    return become


def test_the_first_process_reports_an_error_that_all_have(processes):
    assert processes(0) == []
    assert report_failure("bad") == Report("bad", True)
    assert torchrun.is_first_process()

    waits = processes(1)

    assert report_failure("bad") == Report("bad", False)
    assert waits == [torchrun._PRECEDENCE]


def test_a_process_that_lost_another_leaves_it_the_report(processes):
    processes(1)
    assert report_failure("cannot read") == Report("process 1 on host: cannot read", True)

    waits = processes(0)

    assert report_failure("lost", is_consequence=True).text == "process 1 on host: cannot read"
    assert waits == [torchrun._TIME_OF_CAUSE]
    assert torchrun._TIME_OF_CAUSE > torchrun._PRECEDENCE


def test_each_failed_job_of_a_sweep_is_reported(processes):
    processes(0)
    assert [report_failure(text).text for text in ("one", "two")] == ["one", "two"]

    processes(1)
    assert [report_failure(text).text for text in ("mine", "other")] == ["one", "two"]


def test_a_single_process_reports_at_once(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)

    assert report_failure("bad") == Report("bad", True)
    assert is_first_process()
    assert share_text("name", "text") == "text"


def test_without_a_store_every_process_reports(processes, monkeypatch):
    processes(1)
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE")

    assert report_failure("bad") == Report("process 1 on host: bad", True)


def test_torchrun_reads_the_cause_of_its_summary(tmp_path, monkeypatch):
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    name_cause("the cause")

    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(path))
    assert json.loads(path.read_text())["message"] == failure.message
    assert failure.message["extraInfo"]["py_callstack"] == "the cause"
