from itertools import count, islice

from seq2seq.inference.windows import BATCHES_PER_WINDOW, cut_windows


def test_a_window_holds_many_batches_and_the_last_one_the_rest():
    full = 3 * BATCHES_PER_WINDOW

    found = list(cut_windows(range(2 * full + 1), 3))

    assert [len(window) for window in found] == [full, full, 1]
    assert [item for window in found for item in window] == list(range(2 * full + 1))


def test_no_items_make_no_window():
    assert list(cut_windows([], 2)) == []


def test_an_endless_stream_is_read_a_window_at_a_time():
    numbers = count()

    assert list(islice(cut_windows(numbers, 1), 1)) == [list(range(BATCHES_PER_WINDOW))]
    assert next(numbers) == BATCHES_PER_WINDOW
