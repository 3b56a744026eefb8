import threading
import time

import pytest
import torch

from seq2seq.runtime.workers import map_in_threads


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items():
    second_is_done = threading.Event()

    def work(item):
        if item == 0:
            assert second_is_done.wait(timeout=10)
        if item == 1:
            second_is_done.set()
        return item

    assert list(map_in_threads(work, range(5))) == list(range(5))


def test_each_worker_uses_one_thread_and_the_caller_keeps_its_number():
    def num_threads(item):
        return torch.get_num_threads()

    assert list(map_in_threads(num_threads, range(4))) == [1] * 4
    assert list(map_in_threads(num_threads, range(1))) == [2]
    assert torch.get_num_threads() == 2
    [later] = list(_in_a_new_thread(torch.get_num_threads))
    assert later == 2


def test_threads_are_divided_among_at_most_eight_workers():
    torch.set_num_threads(20)

    def work(item):
        return threading.get_ident(), torch.get_num_threads()

    few, many = list(map_in_threads(work, range(3))), list(map_in_threads(work, range(1000)))

    assert {threads for _, threads in few} == {6}
    assert {threads for _, threads in many} == {2}
    assert len({worker for worker, _ in many}) <= 8


def test_an_error_reaches_the_caller_and_stops_the_work():
    begun = []

    def work(item):
        begun.append(item)
        if item == 1:
            raise ValueError("the second")
        time.sleep(0.001)  # else a fast thread may take all items before the caller sees the error

    with pytest.raises(ValueError, match="the second"):
        list(map_in_threads(work, range(1000)))
    assert len(begun) < 1000


def test_closing_the_results_stops_the_work():
    begun = []

    def work(item):
        begun.append(item)
        time.sleep(0.001)  # else fast threads may take all items before the results are closed

    results = map_in_threads(work, range(1000))
    next(results)
    results.close()

    assert len(begun) < 1000


def _in_a_new_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found
