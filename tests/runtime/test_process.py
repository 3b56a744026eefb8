import ctypes
import os
import platform
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from seq2seq.runtime.process import (
    LostProcessError,
    StopSignals,
    interrupts_in_one_line,
    keep_freed_memory,
    lost_processes_named,
    report_failure,
)

ROOT = Path(__file__).parents[2]
COUNT_FAULTS = """
import ctypes, resource, sys
from seq2seq.runtime.process import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def touch():
    blocks = [library.malloc(24 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, 24 << 20)
    for block in blocks:
        library.free(block)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

touch()
before = faults()
for _ in range(3):
    touch()
print(faults() - before)
"""


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")]
)
def test_a_signal_is_one_line_and_its_exit_code(capsys, number, name):
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as end, interrupts_in_one_line():
        send(number)

    assert end.value.code == 128 + number
    assert capsys.readouterr() == ("", f"stopped by {name}\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="ours"), interrupts_in_one_line():
        raise RuntimeError("ours")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_recorded_and_acknowledged_and_does_not_interrupt(number, capfd):
    with StopSignals() as signals:
        assert signals.received is None

        send(number)

        assert signals.received == number
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    line = f"{name}: the run saves and stops after this batch; a second {name} stops"
    assert capfd.readouterr().err.lstrip().startswith(line)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_takes_effect_at_once(first):
    with pytest.raises(KeyboardInterrupt), StopSignals():
        send(first)
        send(signal.SIGINT)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
def test_a_closed_terminal_is_recorded_however_often_it_says_so():
    before = signal.getsignal(signal.SIGHUP)
    with StopSignals() as signals:
        send(signal.SIGHUP)
        send(signal.SIGHUP)
    assert signals.received == signal.SIGHUP
    assert signal.getsignal(signal.SIGHUP) is before

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signals.received is None


def test_handlers_are_restored_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with pytest.raises(RuntimeError), StopSignals():
        raise RuntimeError

    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_signals_are_left_alone_in_another_thread():
    def handler_within_the_context():
        with StopSignals():
            return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handler_within_the_context).result() is before


@pytest.mark.parametrize(
    ("has_times", "time"), [(False, ""), (True, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ")]
)
def test_log_lines_go_to_stderr(has_times, time):
    code = (
        "import logging; from seq2seq.runtime.process import log_to_stderr; "
        f"log_to_stderr(has_times={has_times}); "
        "logging.debug('a'); logging.info('b\\x1b]0;'); logging.warning('c')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == ""
    assert re.fullmatch(rf"{time}b\\x1b\]0;\n{time}warning: c\n", done.stderr)


def count_faults(choice):
    """Return how often the system cleared a page while 72 MB were used three times more."""
    command = [sys.executable, "-c", COUNT_FAULTS, choice]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_that_was_freed_is_used_again_without_the_system():
    by_default, kept = count_faults("default"), count_faults("keep")

    assert by_default > 1000
    assert kept < 100


def test_another_c_library_is_left_alone(monkeypatch):
    class Musl:
        """Has no mallopt."""

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Musl())

    keep_freed_memory()


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

    assert line == "error: bad; its own output, or the output of torchrun, says why\n"
    assert wait > report(3, 1)[1]


def test_control_characters_of_an_error_are_shown_escaped(capsys):
    report_failure("version \x1b]0;title\x07\r, \x9b2J", is_consequence=False)

    assert capsys.readouterr().err == "error: version \\x1b]0;title\\x07\\r, \\x9b2J\n"


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
