import pytest

from seq2seq.training.save_clock import SaveClock


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose only number is the time in seconds."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_save_is_due_when_the_interval_has_passed(clock):
    saves = SaveClock(2)

    clock[0] += 119
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_every_save_starts_the_interval_anew(clock):
    saves = SaveClock(2)
    clock[0] += 100

    with saves.saving():
        pass

    clock[0] += 119
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_a_slow_save_is_made_less_often_and_costs_one_percent(clock):
    saves = SaveClock(2)

    with saves.saving():
        clock[0] += 3

    clock[0] += 299
    assert not saves.is_due()
    clock[0] += 1
    assert saves.is_due()


def test_without_an_interval_no_save_is_due(clock):
    saves = SaveClock(None)

    clock[0] += 1e9

    assert not saves.is_due()
