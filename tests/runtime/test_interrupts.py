import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2seq.runtime.interrupts import Interrupted, StopSignals, interrupts_in_one_line


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_ctrl_c_is_one_line_and_the_exit_code_of_the_signal(capsys):
    with pytest.raises(SystemExit) as end, interrupts_in_one_line():
        raise KeyboardInterrupt

    assert end.value.code == 130
    assert capsys.readouterr() == ("", "stopped by Ctrl-C\n")


def test_sigterm_is_one_line_and_the_exit_code_of_the_signal(capsys):
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as end, interrupts_in_one_line():
        send(signal.SIGTERM)

    assert end.value.code == 143
    assert capsys.readouterr() == ("", "stopped by SIGTERM\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="ours"), interrupts_in_one_line():
        raise RuntimeError("ours")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_recorded_and_does_not_interrupt(number):
    with StopSignals() as signals:
        assert signals.received is None

        send(number)

        assert signals.received == number


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_takes_effect_at_once(first):
    with pytest.raises(KeyboardInterrupt), StopSignals():
        send(first)
        send(signal.SIGINT)


def test_handlers_are_restored_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with pytest.raises(RuntimeError), StopSignals():
        raise RuntimeError

    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("number", "name", "code"), [(signal.SIGINT, "SIGINT", 130), (signal.SIGTERM, "SIGTERM", 143)]
)
def test_an_interruption_has_the_name_and_exit_code_of_its_signal(number, name, code):
    interrupted = Interrupted(number)

    assert str(interrupted) == name
    assert interrupted.exit_code == code


def test_signals_are_left_alone_in_another_thread():
    before = signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        during = pool.submit(_handler_within_the_context).result()

    assert during is before


def _handler_within_the_context():
    with StopSignals():
        return signal.getsignal(signal.SIGINT)
