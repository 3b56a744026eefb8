from pathlib import Path

import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data.grammar.grammar import Phrase
from seq2seq.data.grammar.parser import MAX_BYTES, read_grammar


def test_file_is_read_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"\xef\xbb\xbf" + TOY_GRAMMAR.encode())

    grammar = read_grammar(path)

    assert grammar.tables["Verb"].rows[0].forms[0] == ("schl\u00e4ft", "schlafen")


def test_invalid_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"languages: de en\n# fine\nSentence: gr\xfcn . | green .\n")

    with pytest.raises(ValueError, match=r"toy\.grammar:3: not UTF-8; save the file as UTF-8"):
        read_grammar(path)


def test_comments_and_empty_lines_keep_the_line_numbers() -> None:
    grammar = toy_grammar()

    assert [rule.location.line for rule in grammar.rules["Sentence"]] == [7, 9]
    assert [row.location.line for row in grammar.tables["Noun"].rows] == [16, 17]


def test_indented_line_continues_its_rule() -> None:
    (german, english) = toy_grammar().rules["Sentence"][0].sides

    assert len(german) == len(english) == 4
    assert german[0] == english[0] == Phrase("The")


def test_weights_are_one_unless_given() -> None:
    grammar = toy_grammar()

    assert [rule.weight for rule in grammar.rules["Sentence"]] == [3.0, 1.0]
    assert grammar.value_weights == {"sg": 2.0, "pl": 1.0, "m": 1.0, "f": 1.0}


def test_heads_may_name_their_features_in_any_order() -> None:
    grammar = toy_grammar(TOY_GRAMMAR.replace("The[sg f]", "The[f sg]"))

    assert grammar.signatures["The"] == ("number", "gender")
    assert grammar.rules["The"][1].head == ("sg", "f")


def test_head_of_a_table_cannot_get_a_rule() -> None:
    with pytest.raises(ValueError, match=r"toy\.grammar:21: Verb is a table of words already"):
        toy_grammar(TOY_GRAMMAR + "Verb: x | y\n")


def test_file_without_a_sentence_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule for Sentence; every sentence grows from"):
        toy_grammar("languages: de en\n")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("languages: de en", "languages: de", 2, "one line must name two languages or more"),
        ("languages: de en", "languages: de de", 2, "one line must name two languages or more"),
        ("languages: de en", "", 4, "the languages must come first"),
        ("feature number:", "feature Number:", 4, "a feature is written feature name: value"),
        ("sg*2 pl", "sg*0 pl", 4, "a feature is written feature name: value"),
        ("sg*2 pl", "sg sg", 4, "a feature is written feature name: value"),
        ("gender: m f", "gender: m sg", 5, "'sg' is a feature or a value already"),
        ("gender: m f", "number: m f", 5, "'number' is a feature or a value already"),
        ("# a small language", "  indented", 1, "the first line is indented"),
        ("Sentence: nein . | no .", "Sentence nein . | no .", 9, "no colon after"),
        ("Sentence: nein", "sentence: nein", 9, "'sentence' is not a head"),
        ("Sentence: nein", "Sentence *0: nein", 9, "the weight \\*0 must be at least 1"),
        ("The[sg f]:", "The[sg]:", 12, r"The\[number\] differs from its first rule"),
        ("words Noun[gender]", "words Noun[sex]", 15, "'sex' is not a feature; declare it"),
        ("words Noun[gender]", "words Verb[gender]", 19, "Verb has rules or a table already"),
        ("words Noun[gender]", "words The[gender]", 15, "The has rules or a table already"),
        ("  m: Hund", "  sg: Hund", 16, "sg is not a value of gender; one of: m, f"),
        ("  m: Hund", "  Hund", 16, "0 values before the colon, but Noun has the features gender"),
        ("  m: Hund", "  m sg: Hund", 16, "2 values before the colon, but Noun has"),
        ("dog dogs", "dog", 16, "1 forms for en, but Noun has 2 columns there"),
        ("Hund Hunde |", "Hund Hunde", 16, "1 sides, but the languages are de, en"),
        ("  schläft schlafen | sleep sleeps\n", "", 19, "the table Verb has no words"),
    ],
)
def test_error_names_its_line_and_the_rule(old: str, new: str, line: int, message: str) -> None:
    assert TOY_GRAMMAR.count(old) >= 1

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}"):
        toy_grammar(TOY_GRAMMAR.replace(old, new, 1))


def test_a_grammar_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.grammar"
    path.write_bytes(b"languages: de en\nSentence: " + b"a " * MAX_BYTES)

    with pytest.raises(ValueError, match=r"big.grammar has more than 1,048,576 bytes, the limit"):
        read_grammar(path)


@pytest.mark.parametrize("line", ["\0" * 50_000, "x" * 50_000])
def test_a_line_that_is_no_rule_is_not_shown_whole(line: str) -> None:
    with pytest.raises(ValueError, match=r"toy.grammar:1: ") as caught:
        toy_grammar(line)

    assert len(str(caught.value)) < 200
