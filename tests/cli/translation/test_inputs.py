import io

import pytest

from seq2seq.cli.translation.inputs import Inputs
from seq2seq.files.lines import LineReader


def reader(name, *lines):
    return LineReader(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), name=name)


class Silent:
    """An input without any line yet."""

    name = "silent"

    def __iter__(self):
        pytest.fail("it would wait for a line")

    def has_more(self):
        return False


class Slow:
    """An input whose lines arrive one by one."""

    name = "slow"

    def __iter__(self):
        yield from ("a", "b")

    def has_more(self):
        return False


def test_windows_have_the_lines_of_all_inputs_and_their_companions():
    sources = [("a", "A1", "A2"), ("b",), ("c", "C1")]
    companions = [("d", "D1", "D2"), ("e",), ("f", "F1")]

    alone = Inputs([reader(*each) for each in sources], [])
    together = Inputs(*([reader(*e) for e in each] for each in (sources, companions)))

    assert list(alone.windows(9)) == [[("A1", ""), ("A2", "")], [("C1", "")]]
    assert list(together.windows(9)) == [[("A1", "D1"), ("A2", "D2")], [("C1", "F1")]]


def test_a_window_has_a_largest_size():
    inputs = Inputs([reader("a", *"12345")], [])

    assert list(map(len, inputs.windows(2))) == [2, 2, 1]


def test_a_window_ends_where_the_next_line_has_not_arrived():
    assert list(Inputs([Slow()], []).windows(9)) == [[("a", "")], [("b", "")]]


def test_a_line_that_was_read_is_found_in_its_input():
    inputs = Inputs(
        [reader("input=a", "", ""), reader("input=b"), reader("input=c", "")],
        [reader("prefixes=d", "", ""), reader("prefixes=e"), reader("prefixes=f", "")],
    )

    num_lines = sum(map(len, inputs.windows(9)))

    found = list(map(inputs.find_line, range(num_lines)))
    assert found == [(0, 0), (0, 1), (2, 0)]
    assert list(map(inputs.companion_name, (1, 2))) == ["prefixes=d:2", "prefixes=f:1"]


def test_a_line_that_was_not_read_is_not_found():
    inputs = Inputs([reader("input=a", "", "")], [])

    next(inputs.windows(1))

    with pytest.raises(IndexError):
        inputs.find_line(1)


def test_the_lines_of_an_input_do_not_wait_for_the_next_input():
    inputs = Inputs([reader("a", "A1", "A2", "A3"), Silent()], [])

    assert next(inputs.windows(9)) == [("A1", ""), ("A2", ""), ("A3", "")]
