import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.windows import (
    BATCHES_PER_WINDOW,
    LONG_SENTENCE,
    VERY_LONG,
    cut_batches,
    cut_windows,
    in_order,
)


def test_a_window_holds_many_batches_and_the_last_one_the_rest():
    full = 3 * BATCHES_PER_WINDOW

    found = list(cut_windows(range(2 * full + 1), 3))

    assert [len(window) for window in found] == [full, full, 1]
    assert [item for window in found for item in window] == list(range(2 * full + 1))


@given(
    lengths=st.lists(st.one_of(st.just(0), st.integers(0, 3 * LONG_SENTENCE))),
    batch_size=st.integers(1, 5),
)
def test_every_row_is_in_a_batch_of_bounded_area_and_comes_back_in_order(lengths, batch_size):
    batches = cut_batches(lengths, batch_size)

    assert list(in_order(batches, batches)) == list(range(len(lengths)))
    assert [lengths[row] for batch in batches for row in batch] == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        area = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) == 1 or area <= batch_size * LONG_SENTENCE
        assert len({lengths[row] == 0 for row in batch}) == 1


def test_a_result_comes_before_the_batches_behind_it():
    results = in_order([[0, 1], [2, 3]], iter([["a", "b"]]))

    assert [next(results), next(results)] == ["a", "b"]


def test_a_row_without_a_result_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        list(in_order([[0, 1]], [["a"]]))


def test_on_result_is_called_as_soon_as_a_result_is_known():
    events = []

    for result in in_order([[1], [2], [0]], ["b", "c", "a"], events.append):
        events.append(f"{result} yielded")

    assert events == ["b", "c", "a", "a yielded", "b yielded", "c yielded"]


def test_a_warning_counts_very_long_rows(caplog):
    cut_batches([1, VERY_LONG, VERY_LONG + 1, 50 * VERY_LONG], batch_size=2)

    [message] = caplog.messages
    assert message.startswith("sentences of more than 1,000 tokens: 2, the longest of 50,000;")
    assert message.endswith("split=always splits them")
