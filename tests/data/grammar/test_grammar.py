"""A grammar file means what its first lines say, and an error in it is named with its line."""

from pathlib import Path

import pytest

from seq2seq.data.grammar.candidates import find_candidates
from seq2seq.data.grammar.config import Form, Grammar, Phrase, Place, Value, Word
from seq2seq.data.grammar.options import find_choices
from seq2seq.data.grammar.parser import parse_grammar, read_grammar

TOY = """\
# a small language
languages: de en

feature number: sg*2 pl
feature gender: m f

Sentence *3: The[number gender] Noun[gender].number Verb.number .
           | The Noun.number Verb.number .
Sentence: nein . | no .

The[sg m]: der | the
The[sg f]: die | the
The[pl gender]: die | the   # both

words Noun[gender]: sg pl | sg pl
  m: Hund Hunde | dog dogs
  f: Katze Katzen | cat cats

words Verb: sg pl | * sg
  schläft schlafen | sleep sleeps
"""


def parse(text: str) -> Grammar:
    return parse_grammar(text, path="toy.grammar")


def check(text: str) -> None:
    """Do all that is done with a file before the first sentence."""
    find_choices(parse(text))


def test_file_is_read_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"\xef\xbb\xbf" + TOY.encode())

    grammar = read_grammar(path)

    assert grammar.tables["Verb"].rows[0].forms[0] == ("schl\u00e4ft", "schlafen")


def test_invalid_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"languages: de en\n# fine\nSentence: gr\xfcn . | green .\n")

    with pytest.raises(ValueError, match=r"toy\.grammar:3: not UTF-8; save the file as UTF-8"):
        read_grammar(path)


def test_comments_and_empty_lines_keep_the_line_numbers() -> None:
    grammar = parse(TOY)

    assert [rule.place.line for rule in grammar.rules["Sentence"]] == [7, 9]
    assert [row.place.line for row in grammar.tables["Noun"].rows] == [16, 17]


def test_indented_line_continues_its_rule() -> None:
    (german, english) = parse(TOY).rules["Sentence"][0].sides

    assert len(german) == len(english) == 4
    assert german[0] == english[0] == Phrase("The")


def test_weights_are_one_unless_given() -> None:
    grammar = parse(TOY)

    assert [rule.weight for rule in grammar.rules["Sentence"]] == [3.0, 1.0]
    assert grammar.value_weights == {"sg": 2.0, "pl": 1.0, "m": 1.0, "f": 1.0}


def test_heads_may_name_their_features_in_any_order() -> None:
    grammar = parse(TOY.replace("The[sg f]", "The[f sg]"))

    assert grammar.signatures["The"] == ("number", "gender")
    assert grammar.rules["The"][1].head == ("sg", "f")


def test_alternative_values_are_a_variable_of_their_own() -> None:
    (rule,) = parse(
        "languages: a b\nfeature gender: m f n\n"
        "Sentence: One[m/n] One2[m/n] | One One2\n"
        "words One[gender]: * | *\n m/n: x | y\n f: z | z\n"
    ).rules["Sentence"]

    first, second = (rule.mentions[name].arguments[0] for name in ("One", "One2"))
    assert first is not None
    assert second is not None
    assert first != second
    assert rule.domains[first] == rule.domains[second] == ("m", "n")


def test_numbered_feature_is_another_variable() -> None:
    (rule,) = parse(
        "languages: a b\nfeature number: sg pl\n"
        "Sentence: N[number].number N2[number2].number | N.number N2.number2\n"
        "words N[number]: * | sg pl\n sg/pl: x | y ys\n"
    ).rules["Sentence"]

    assert rule.domains == {"number": ("sg", "pl"), "number2": ("sg", "pl")}


def test_pieces_of_a_word_are_joined_with_plus() -> None:
    (rule,) = parse(
        "languages: a b\nfeature ending: e en\n"
        'Sentence: Stem.x+<ending>+"Z"+st | Stem\n'
        "words Stem: x | *\n klein | small\n"
    ).rules["Sentence"]

    assert rule.sides[0] == (
        Word(pieces=(Form("Stem", ("x",)), Value("ending"), "Z", "st"), groups=("Stem",)),
    )


def test_groups_are_the_word_the_label_or_the_plain_words_of_the_rule() -> None:
    (rule,) = parse(
        "languages: a b\nSentence: plain W do~W one~1 . | plain W one~1 .\nwords W: * | *\n x | y\n"
    ).rules["Sentence"]

    groups = [item.groups for item in rule.sides[0] if isinstance(item, Word)]
    assert groups == [("",), ("W",), ("W",), ("1",), ()]


@pytest.mark.parametrize(
    ("labels", "column"),
    [({"sg"}, 1), ({"pl"}, 2), ({"pl", "dat"}, 3), ({"sg", "dat"}, 1), ({"nom"}, 0), (set(), 0)],
)
def test_column_with_most_of_the_labels_is_chosen(labels: set[str], column: int) -> None:
    table = parse(
        "languages: a b\nSentence: N | N\nwords N: * sg pl pl.dat | *\n w x y z | n\n"
    ).tables["N"]

    assert table.column(0, frozenset(labels)) == column


def test_place_names_file_and_line() -> None:
    error = Place("some.grammar", 12).error("wrong; make it right")

    assert str(error) == "some.grammar:12: wrong; make it right"


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
        ("Sentence: nein", "sentence: nein", 9, "'sentence' is no head"),
        ("Sentence: nein", "Sentence *0: nein", 9, "the weight \\*0 must be at least 1"),
        ("nein . | no .", "nein .", 9, "1 sides, but the languages are de, en"),
        ("nein . | no .", "nein . | no . | non .", 9, "3 sides, but the languages are de, en"),
        ("nein . | no .", "nein[ . | no .", 9, "a bracket or quote without its partner"),
        ("nein . | no .", 'nein" . | no .', 9, "a bracket or quote without its partner"),
        ("nein . | no .", "nein[m] . | no .", 9, r"'nein\[m\]' cannot be read \(side of de\)"),
        ("nein . | no .", "nein~ . | no .", 9, "after ~ comes a label"),
        ("nein . | no .", "nein+<case> . | no .", 9, "<case>: 'case' is no feature"),
        ("nein . | no .", "Nein . | no .", 9, "unknown head 'Nein'; add a rule or a table"),
        ("nein . | no .", "nein The[sg m] . | no .", 9, "The stands 0 times on the side of en"),
        ("| The Noun", "| The The Noun", 7, "The stands 2 times on the side of en"),
        ("nein . | no .", "nein . | .", 9, "the plain words on another side: nothing to link with"),
        ("nein . | no .", "nein Verb.sg . | no .", 9, "'Verb' on another side: nothing to link"),
        ("nein . | no .", "nein~1 . | no~2 .", 9, "'2' on another side: nothing to link with"),
        ("nein . | no .", "The~1 . | no~1 .", 9, "The is a phrase; \\+ and ~ are for words"),
        ("nein . | no .", "The+x . | no .", 9, "The is a phrase; \\+ and ~ are for words"),
        ("nein . | no .", "The.sg . | The .", 9, "The.sg: The is no table"),
        ("The[sg m]:", "The[sg m x]:", 11, "'x' is no feature and no value of one"),
        ("The[sg m]:", "The[sg m/x]:", 11, "'m/x' is no feature and no value of one"),
        ("The[sg m]:", "The[sg m/pl]:", 11, "'m/pl' is no feature and no value of one"),
        ("The[sg f]:", "The[sg]:", 12, r"The\[number\] differs from its first rule"),
        ("The[number gender]", "The[number sg]", 7, "'sg' is not wanted; The has the features"),
        ("| The Noun", "| The[pl] Noun", 7, "the features stand at the first mention only"),
        ("Noun[gender].number", "Noun[gender].dat", 7, "Noun.dat: no such form; the table has"),
        ("| The Noun.number", "| The Noun", 7, "Noun.: no column of Noun fits for en"),
        ("words Noun[gender]", "words Noun[sex]", 15, "'sex' is no feature; declare it"),
        ("words Noun[gender]", "words Verb[gender]", 19, "Verb has rules or a table already"),
        ("words Noun[gender]", "words The[gender]", 15, "The has rules or a table already"),
        ("  m: Hund", "  sg: Hund", 16, "sg is no value of gender; one of: m, f"),
        ("  m: Hund", "  Hund", 16, "0 values before the colon, but Noun has the features gender"),
        ("  m: Hund", "  m sg: Hund", 16, "2 values before the colon, but Noun has"),
        ("dog dogs", "dog", 16, "1 forms for en, but Noun has 2 columns there"),
        ("Hund Hunde |", "Hund Hunde", 16, "1 sides, but the languages are de, en"),
        ("  schläft schlafen | sleep sleeps\n", "", 19, "the table Verb has no words"),
        ("* sg\n", "sg sg\n", 7, "two columns of Verb fit sg; name one more label"),
    ],
)
def test_error_names_line_and_rule(old: str, new: str, line: int, message: str) -> None:
    assert TOY.count(old) >= 1

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}"):
        check(TOY.replace(old, new, 1))


def test_head_of_a_table_cannot_get_a_rule() -> None:
    with pytest.raises(ValueError, match=r"toy\.grammar:21: Verb is a table of words already"):
        check(TOY + "Verb: x | y\n")


def test_file_without_a_sentence_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule for Sentence; every sentence grows from"):
        check("languages: de en\n")


def test_rule_that_nothing_leads_to_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"toy\.grammar:21: unreachable rule of Alone: "):
        check(TOY + "Alone: x | y\n")


def test_rule_for_features_that_nobody_asks_for_is_an_error() -> None:
    text = TOY.replace("The[number gender] Noun[gender]", "The[number m] Noun[m]")

    with pytest.raises(ValueError, match=r":12: unreachable rule of The: .* The\[sg f\]"):
        check(text)


def test_word_that_nobody_asks_for_is_an_error() -> None:
    text = TOY.replace("Noun[gender].number", "Noun[f].number")

    with pytest.raises(ValueError, match=r":16: unreachable word of Noun: no sentence asks for"):
        check(text)


def test_rule_that_never_becomes_words_is_an_error() -> None:
    text = TOY + "Sentence: Loop | Loop\nLoop: x Loop | y Loop\n"

    with pytest.raises(ValueError, match=r":21: unproductive rule of Sentence: nothing fits Loop"):
        check(text)


def test_rule_whose_features_no_word_has_is_an_error() -> None:
    text = TOY.replace("gender: m f", "gender: m f n") + "Sentence: Noun[n].sg | Noun.sg\n"

    with pytest.raises(ValueError, match=r":21: unproductive rule .* nothing fits Noun\[n\]"):
        check(text)


def test_combination_of_features_that_no_word_has_is_left_out() -> None:
    grammar = parse(TOY.replace("gender: m f", "gender: m f n"))

    candidates = find_candidates(grammar)[("Sentence", ())]

    genders = {candidate.values["gender"] for candidate in candidates if candidate.values}
    assert genders == {"m", "f"}


def test_weight_of_a_rule_is_shared_by_the_weights_of_its_values() -> None:
    options = find_choices(parse(TOY))[0]

    # sg m, sg f, pl m, pl f of the first rule; the second rule
    assert [option.weight for option in options] == pytest.approx([1.0, 1.0, 0.5, 0.5, 1.0])
