import contextlib
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
from tiny_service import PanicError, wait_until
from tiny_translator import BEAM, GREEDY

from seq2seq.serving.batcher import Batcher, RefusedError


class Recorder:
    """Translates by capital letters, keeps its batches, and stops while its gate is shut."""

    error: type[BaseException] = RuntimeError

    def __init__(self):
        self.batches = []
        self.threads = set()
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.gate.set()

    def __call__(self, lines, decoding):
        self.batches.append((lines, decoding))
        self.threads.add(threading.current_thread())
        self.entered.release()
        assert self.gate.wait(10)
        if any("bad" in line for line in lines):
            raise self.error("a line is bad")
        return [line.upper() for line in lines]

    def lines(self):
        return [lines for lines, _ in self.batches]


@pytest.fixture
def recorder():
    return Recorder()


@contextlib.contextmanager
def shut(recorder, **options):
    """Yield a batcher whose first line has begun and stops, so that what follows has to wait."""
    recorder.gate.clear()
    with Batcher(**options) as batcher:
        try:
            batcher.submit(recorder, ["first"], GREEDY)
            assert recorder.entered.acquire(timeout=10)
            yield batcher
        finally:
            recorder.gate.set()


def test_requests_that_wait_are_translated_together(recorder):
    with shut(recorder, batch_size=3) as batcher:
        futures = [batcher.submit(recorder, [letter], GREEDY) for letter in "abcd"]
        assert batcher.num_waiting == 4
        recorder.gate.set()

        assert [future.result(10) for future in futures] == [["A"], ["B"], ["C"], ["D"]]
    assert recorder.lines() == [["first"], ["a", "b", "c"], ["d"]]
    assert len(recorder.threads) == 1


@pytest.mark.parametrize("lines", [["a"], ["1", "2", "3"]])
def test_a_request_does_not_wait_for_others(recorder, lines):
    with Batcher(batch_size=2, linger=3600) as batcher:
        for _ in range(3):
            assert batcher.submit(recorder, lines, GREEDY).result(10) == [
                line.upper() for line in lines
            ]


def test_after_a_batch_of_several_the_next_one_is_filled(recorder):
    with shut(recorder, batch_size=2, linger=3600) as batcher:
        both = [batcher.submit(recorder, [letter], GREEDY) for letter in "ab"]
        recorder.gate.set()
        wait(both, 10)
        late = batcher.submit(recorder, ["c"], GREEDY)
        assert not late.done()
        assert batcher.submit(recorder, ["d"], GREEDY).result(10) == ["D"]

    assert recorder.lines() == [["first"], ["a", "b"], ["c", "d"]]


def test_clients_that_ask_again_at_once_are_expected_only_once(recorder):
    again = []
    with shut(recorder, batch_size=8, linger=3600) as batcher:
        for future in [batcher.submit(recorder, [letter], GREEDY) for letter in "ab"]:
            future.add_done_callback(
                lambda _: again.append(batcher.submit(recorder, ["c"], GREEDY))
            )
        recorder.gate.set()
        wait_until(lambda: len(again) == 2)

        assert [future.result(10) for future in again] == [["C"], ["C"]]


def test_lines_of_several_requests_take_turns(recorder):
    with shut(recorder, batch_size=4) as batcher:
        document = batcher.submit(recorder, ["1", "2", "3", "4", "5", "6"], GREEDY)
        sentence = batcher.submit(recorder, ["a"], GREEDY)
        recorder.gate.set()

        assert document.result(10) == ["1", "2", "3", "4", "5", "6"]
        assert sentence.result(10) == ["A"]
    assert recorder.lines()[1:] == [["1", "a", "2", "3"], ["4", "5", "6"]]


def test_requests_of_different_searches_and_models_are_translated_apart_and_take_turns(recorder):
    other = Recorder()
    with shut(recorder, batch_size=2) as batcher:
        futures = [
            batcher.submit(recorder, ["1", "2", "3"], BEAM),
            batcher.submit(recorder, ["a"], GREEDY),
            batcher.submit(recorder, ["4"], replace(BEAM)),
            batcher.submit(other, ["5"], BEAM),
        ]
        recorder.gate.set()
        wait(futures, 10)

    assert recorder.batches[1:] == [(["1", "4"], BEAM), (["a"], GREEDY), (["2", "3"], BEAM)]
    assert other.batches == [(["5"], BEAM)]


@pytest.mark.parametrize("error", [RuntimeError, PanicError])
def test_a_failing_line_fails_its_own_request_only(recorder, error):
    recorder.error = error
    with shut(recorder, batch_size=8) as batcher:
        good = [batcher.submit(recorder, [letter], GREEDY) for letter in "ab"]
        bad = batcher.submit(recorder, ["x", "bad", "bad"], GREEDY)
        recorder.gate.set()

        assert [future.result(10) for future in good] == [["A"], ["B"]]
        with pytest.raises(RuntimeError, match="a line is bad"):
            bad.result(10)
        assert batcher.submit(recorder, ["c"], GREEDY).result(10) == ["C"]


def test_lines_that_waited_too_long_are_not_translated(recorder):
    with shut(recorder) as batcher:
        late = batcher.submit(recorder, ["late", "later"], GREEDY, timeout=0)
        other = batcher.submit(recorder, ["a"], GREEDY, timeout=3600)
        recorder.gate.set()

        with pytest.raises(RefusedError, match="took too long"):
            late.result(10)
        assert other.result(10) == ["A"]
        assert batcher.num_waiting == 0
    assert recorder.lines() == [["first"], ["a"]]


def test_a_cancelled_request_frees_its_places_at_once_and_is_not_translated(recorder):
    with shut(recorder, batch_size=1, max_waiting=2) as batcher:
        cancelled = batcher.submit(recorder, ["a", "b"], GREEDY)
        with pytest.raises(RefusedError, match="too many requests wait"):
            batcher.submit(recorder, ["c"], GREEDY)
        assert batcher.is_full
        assert cancelled.cancel()
        assert not batcher.is_full
        future = batcher.submit(recorder, ["c", "d"], GREEDY)
        recorder.gate.set()

        assert future.result(timeout=10) == ["C", "D"]
    with pytest.raises(CancelledError):
        cancelled.result()
    assert batcher.num_waiting == 0
    assert recorder.lines() == [["first"], ["c"], ["d"]]


def test_a_request_may_be_repeated_when_it_is_overdue(recorder):
    repeated = []
    with shut(recorder, batch_size=1) as batcher:
        overdue = batcher.submit(recorder, ["a"], GREEDY, timeout=0)
        other = batcher.submit(recorder, ["b"], GREEDY)
        overdue.add_done_callback(
            lambda _: repeated.append(batcher.submit(recorder, ["a"], GREEDY))
        )
        recorder.gate.set()

        assert other.result(timeout=10) == ["B"]
        assert repeated[0].result(timeout=10) == ["A"]


def test_closing_answers_what_was_accepted_and_refuses_the_rest(recorder):
    with shut(recorder, batch_size=2, linger=3600) as batcher:
        accepted = [batcher.submit(recorder, [letter], GREEDY) for letter in "abc"]
        closing = threading.Thread(target=batcher.close)
        closing.start()
        wait_until(lambda: not batcher.is_working)

        with pytest.raises(RefusedError, match="the service is shutting down"):
            batcher.submit(recorder, ["d"], GREEDY)
        recorder.gate.set()
        closing.join(10)

        assert [future.result(0) for future in accepted] == [["A"], ["B"], ["C"]]


def test_batches_are_reported_by_a_function_that_may_fail(recorder, caplog):
    sizes = []

    def report(size, seconds):
        sizes.append(size)
        raise OSError("no space left on device")

    with Batcher(on_batch=report) as batcher:
        answers = [
            batcher.submit(recorder, lines, GREEDY).result(10) for lines in (["a"], ["b", "c"])
        ]

    assert answers == [["A"], ["B", "C"]]
    assert sizes == [1, 2]
    assert "no space left on device" in caplog.text


def test_requests_of_many_threads_lose_nothing():
    def translate(lines, decoding):
        if any(line.endswith("7") for line in lines):
            raise ValueError
        return [line[::-1] for line in lines]

    def ask(line):
        future = batcher.submit(translate, [line], GREEDY)
        return None if future.exception(10) else future.result()

    lines = [str(number) for number in range(400)]
    with Batcher(batch_size=4, linger=0) as batcher, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, lines))

    assert answers == [None if line.endswith("7") else [line[::-1]] for line in lines]
