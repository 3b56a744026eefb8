import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tiny_service import PanicError
from tiny_translator import BEAM, GREEDY

from seq2seq.serving.batcher import Batcher, FullError


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


def results(futures):
    return [future.result(10) for future in futures]


def test_lines_that_wait_are_translated_together_in_the_order_of_their_requests(recorder):
    with shut(recorder, batch_size=3) as batcher:
        futures = [batcher.submit(recorder, list(lines), GREEDY) for lines in ("ab", "c", "de", "")]
        recorder.gate.set()

        assert list(map(results, futures)) == [["A", "B"], ["C"], ["D", "E"], []]
    assert recorder.lines() == [["first"], ["a", "b", "c"], ["d", "e"]]
    assert len(recorder.threads) == 1


def test_a_batch_has_at_most_as_many_characters_or_one_line(recorder):
    with shut(recorder, batch_characters=4) as batcher:
        batcher.submit(recorder, ["aa", "bbb", "c", "ddddd", "e"], GREEDY)
        recorder.gate.set()

    assert recorder.lines()[1:] == [["aa", "c", "e"], ["bbb"], ["ddddd"]]


def test_lines_of_different_searches_and_models_are_translated_apart(recorder):
    other = Recorder()
    with shut(recorder, batch_size=2) as batcher:
        batcher.submit(recorder, ["1", "2", "3"], BEAM)
        batcher.submit(recorder, ["a"], GREEDY)
        batcher.submit(recorder, ["4"], replace(BEAM))
        batcher.submit(other, ["5"], BEAM)
        recorder.gate.set()

    assert recorder.batches[1:] == [(["1", "2"], BEAM), (["3", "4"], BEAM), (["a"], GREEDY)]
    assert other.batches == [(["5"], BEAM)]


@pytest.mark.parametrize("error", [RuntimeError, PanicError])
def test_a_failing_line_fails_alone(recorder, error):
    recorder.error = error
    with shut(recorder, batch_size=8) as batcher:
        a, bad, b = batcher.submit(recorder, ["a", "bad", "b"], GREEDY)
        recorder.gate.set()

        assert results([a, b]) == ["A", "B"]
        with pytest.raises(RuntimeError, match="a line is bad"):
            bad.result(10)
        assert results(batcher.submit(recorder, ["c"], GREEDY)) == ["C"]


def test_a_model_that_returns_too_few_translations_fails_each_line(recorder):
    with Batcher() as batcher:
        for future in batcher.submit(lambda lines, decoding: [], ["a", "b"], GREEDY):
            with pytest.raises(ValueError, match="argument 2 is shorter"):
                future.result(10)
        assert results(batcher.submit(recorder, ["c"], GREEDY)) == ["C"]


def test_a_cancelled_line_frees_its_place_at_once_and_is_not_translated(recorder):
    with shut(recorder, batch_size=1, max_waiting=2) as batcher:
        cancelled = batcher.submit(recorder, ["a", "b"], GREEDY)
        with pytest.raises(FullError):
            batcher.submit(recorder, ["c"], GREEDY)
        with pytest.raises(FullError):
            batcher.check_room()
        assert all(future.cancel() for future in cancelled)
        batcher.check_room()
        kept, dropped = batcher.submit(recorder, ["c", "d"], GREEDY)
        dropped.cancel()
        recorder.gate.set()

        assert kept.result(10) == "C"
    assert recorder.lines() == [["first"], ["c"]]


def test_closing_translates_what_waits(recorder):
    with shut(recorder, batch_size=2) as batcher:
        accepted = batcher.submit(recorder, ["a", "b", "c"], GREEDY)
        closing = threading.Thread(target=batcher.close)
        closing.start()
        recorder.gate.set()
        closing.join(10)

        assert [future.result(0) for future in accepted] == ["A", "B", "C"]


def test_requests_of_many_threads_lose_nothing():
    def translate(lines, decoding):
        if any(line.endswith("7") for line in lines):
            raise ValueError
        return [line[::-1] for line in lines]

    def ask(line):
        [future] = batcher.submit(translate, [line], GREEDY)
        return None if future.exception(10) else future.result()

    lines = [str(number) for number in range(400)]
    with Batcher(batch_size=4) as batcher, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, lines))

    assert answers == [None if line.endswith("7") else line[::-1] for line in lines]
