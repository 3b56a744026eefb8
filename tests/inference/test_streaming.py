from itertools import chain, count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.streaming import (
    BATCHES_PER_WINDOW,
    LONG_SENTENCE,
    VERY_LONG,
    cut_windows,
    map_batches,
)


def record(lengths, *, known=(), batch_size):
    """Return the results, each the number of its row, and the batches that were processed."""
    batches = []

    def process(rows):
        batches.append(rows)
        return rows

    results = map_batches(
        process, lengths=lengths, known={row: row for row in known}, batch_size=batch_size
    )
    return list(results), batches


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


@given(
    rows=st.lists(st.tuples(st.integers(0, 3 * LONG_SENTENCE), st.booleans())),
    batch_size=st.integers(1, 5),
)
def test_every_row_is_processed_once_in_order_in_batches_of_bounded_area(rows, batch_size):
    lengths = [length for length, _ in rows]
    known = [row for row, (_, is_known) in enumerate(rows) if is_known]

    results, batches = record(lengths, known=known, batch_size=batch_size)

    assert results == list(range(len(rows)))
    assert sorted(chain.from_iterable(batches)) == sorted(set(results) - set(known))
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        area = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) == 1 or area <= batch_size * LONG_SENTENCE


def test_rows_of_similar_length_share_a_batch():
    _, batches = record([7, 2, 9, 1], batch_size=2)

    assert batches == [[3, 1], [0, 2]]


def test_a_result_comes_before_the_batches_behind_it():
    batches = []

    def process(rows):
        batches.append(rows)
        return rows

    next(map_batches(process, lengths=[1, 1, 5, 5], known={}, batch_size=2))

    assert batches == [[0, 1]]


def test_a_row_without_a_result_is_an_error():
    results = map_batches(lambda rows: rows[1:], lengths=[1, 1], known={}, batch_size=2)

    with pytest.raises(ValueError, match="shorter"):
        list(results)


def test_on_result_is_called_as_soon_as_a_result_is_known():
    events = []
    results = map_batches(
        lambda rows: [f"row {row}" for row in rows],
        lengths=[9, 0, 5],
        known={1: "known"},
        batch_size=1,
        on_result=events.append,
    )

    for result in results:
        events.append(f"{result} yielded")

    called = ["known", "row 2", "row 0"]
    assert events == [*called, "row 0 yielded", "known yielded", "row 2 yielded"]


def test_a_warning_counts_very_long_rows(caplog):
    lengths = [1, VERY_LONG, VERY_LONG + 1, 50 * VERY_LONG]

    record(lengths, batch_size=2)

    [message] = caplog.messages
    assert message.startswith("2 sentences have more than 1,000 tokens, the longest 50,000;")
    assert message.endswith("for example with long_lines=split")
