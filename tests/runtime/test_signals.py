"""The first signal is noted, the second acts; afterwards everything is as it was."""

import os
import signal

import pytest

from seq2seq.runtime.signals import Interrupted, StopSignals


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_does_not_interrupt(number):
    with StopSignals() as signals:
        assert signals.received is None

        send(number)

        assert signals.received == number


def test_a_second_interrupt_acts_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignals():
        send(signal.SIGINT)
        send(signal.SIGINT)


def test_a_first_interrupt_of_another_kind_makes_the_second_act_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignals():
        send(signal.SIGTERM)
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
