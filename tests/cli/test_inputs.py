"""Several inputs are one stream, of which each line knows where it stands."""

import io
from itertools import islice

import pytest

from seq2seq.cli.inputs import Inputs, Place
from seq2seq.files.lines import LineReader
from seq2seq.inference.streaming import windows


def reader(name, *lines):
    return LineReader(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), name=name)


class Silent:
    """An input that nobody has written to."""

    name = "silent"

    def __iter__(self):
        pytest.fail("it was waited for")

    def has_more(self):
        return False


def test_lines_and_pairs_are_those_of_all_inputs():
    sources = [("a", "A1", "A2"), ("b",), ("c", "C1")]
    companions = [("d", "D1", "D2"), ("e",), ("f", "F1")]

    lines = list(Inputs([reader(*each) for each in sources], []).lines())
    pairs = list(Inputs(*([reader(*e) for e in each] for each in (sources, companions))).pairs())

    assert lines == ["A1", "A2", "C1"]
    assert pairs == [("A1", "D1"), ("A2", "D2"), ("C1", "F1")]


def test_a_line_that_was_read_knows_its_place():
    inputs = Inputs(
        [reader("input=a", "", ""), reader("input=b"), reader("input=c", "")],
        [reader("prefixes=d", "", ""), reader("prefixes=e"), reader("prefixes=f", "")],
    )

    num_lines = sum(1 for _ in inputs.pairs())

    assert list(map(inputs.place, range(num_lines))) == [Place(0, 0), Place(0, 1), Place(2, 0)]
    assert list(map(inputs.companion_name, (1, 2))) == ["prefixes=d:2", "prefixes=f:1"]


def test_a_line_that_was_not_read_has_no_place():
    inputs = Inputs([reader("input=a", "", "")], [])

    next(inputs.lines())

    with pytest.raises(IndexError):
        inputs.place(1)


def test_the_lines_of_an_input_do_not_wait_for_the_next_input():
    inputs = Inputs([reader("a", "A1", "A2", "A3"), Silent()], [])

    found = islice(windows(inputs.lines(), batch_size=9, has_more=inputs.has_more), 1)

    assert list(found) == [["A1", "A2", "A3"]]
