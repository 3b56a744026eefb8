from itertools import chain, count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.streaming import LONG_SENTENCE, VERY_LONG, WINDOW, answer_in_order, windows


def always():
    return True


def record(lengths, *, known=(), batch_size):
    """Return the answers, each the number of its row, and the batches that were asked for."""
    batches = []

    def answer(rows):
        batches.append(rows)
        return rows

    answers = answer_in_order(
        answer, lengths=lengths, known={row: row for row in known}, batch_size=batch_size
    )
    return list(answers), batches


def test_a_window_holds_many_batches_and_the_last_one_what_is_left():
    found = list(windows(range(2 * WINDOW * 3 + 1), batch_size=3, has_more=always))

    assert [len(window) for window in found] == [WINDOW * 3, WINDOW * 3, 1]
    assert [item for window in found for item in window] == list(range(2 * WINDOW * 3 + 1))


def test_a_window_ends_where_the_next_item_is_waited_for():
    assert list(windows("ab", batch_size=9, has_more=lambda: False)) == [["a"], ["b"]]


def test_no_items_make_no_window():
    assert list(windows([], batch_size=2, has_more=always)) == []


def test_an_endless_stream_is_read_a_window_at_a_time():
    assert list(islice(windows(count(), batch_size=1, has_more=always), 1)) == [list(range(WINDOW))]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3 * LONG_SENTENCE), st.booleans())),
    batch_size=st.integers(1, 5),
)
def test_every_row_is_answered_once_in_order_by_batches_of_bounded_area(rows, batch_size):
    lengths = [length for length, _ in rows]
    known = [row for row, (_, is_known) in enumerate(rows) if is_known]

    answers, batches = record(lengths, known=known, batch_size=batch_size)

    assert answers == list(range(len(rows)))
    assert sorted(chain.from_iterable(batches)) == sorted(set(answers) - set(known))
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        area = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) == 1 or area <= batch_size * LONG_SENTENCE


def test_rows_of_like_length_share_a_batch():
    _, batches = record([7, 2, 9, 1], batch_size=2)

    assert batches == [[3, 1], [0, 2]]


def test_an_answer_comes_before_the_batches_behind_it():
    batches = []

    def answer(rows):
        batches.append(rows)
        return rows

    next(answer_in_order(answer, lengths=[1, 1, 5, 5], known={}, batch_size=2))

    assert batches == [[0, 1]]


def test_a_row_without_an_answer_is_an_error():
    answers = answer_in_order(lambda rows: rows[1:], lengths=[1, 1], known={}, batch_size=2)

    with pytest.raises(ValueError, match="shorter"):
        list(answers)


def test_answers_are_observed_when_there_are_some_and_not_in_their_turn():
    events = []
    answers = answer_in_order(
        lambda rows: [f"row {row}" for row in rows],
        lengths=[9, 0, 5],
        known={1: "nothing"},
        batch_size=1,
        observe=events.append,
    )

    for answer in answers:
        events.append(f"{answer} comes")

    observed = ["nothing", "row 2", "row 0"]
    assert events == [*observed, "row 0 comes", "nothing comes", "row 2 comes"]


def test_whoever_waits_for_very_long_rows_is_told_how_many(caplog):
    lengths = [1, VERY_LONG, VERY_LONG + 1, 50 * VERY_LONG]

    record(lengths, batch_size=2)

    [message] = caplog.messages
    assert message.startswith("sentences of more than 1,000 tokens: 2, the longest of 50,000;")
    assert message.endswith("with lines that no reference or prefix belongs to")
