import pytest
from tiny_data import toy_grammar

from seq2seq.data.grammar.grammar import Location


@pytest.mark.parametrize(
    ("labels", "column"),
    [({"sg"}, 1), ({"pl"}, 2), ({"pl", "dat"}, 3), ({"sg", "dat"}, 1), ({"nom"}, 0), (set(), 0)],
)
def test_column_with_most_of_the_labels_is_chosen(labels: set[str], column: int) -> None:
    table = toy_grammar(
        "languages: a b\nSentence: N | N\nwords N: * sg pl pl.dat | *\n w x y z | n\n"
    ).tables["N"]

    assert table.column(0, frozenset(labels)) == column


def test_location_names_file_and_line() -> None:
    error = Location("some.grammar", 12).error("wrong; make it right")

    assert str(error) == "some.grammar:12: wrong; make it right"
