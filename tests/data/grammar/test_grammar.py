"""A grammar file is read as its notation says, and every error names its line."""

import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data.grammar.grammar import Form, Phrase, Value, Word, read_grammar


def test_file_is_read_as_utf_8(tmp_path):
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"\xef\xbb\xbf" + TOY_GRAMMAR.encode())

    grammar = read_grammar(path)

    assert grammar.tables["Verb"].rows[0].forms[0] == ("schl\u00e4ft", "schlafen")


def test_invalid_utf_8_is_named_with_its_line(tmp_path):
    path = tmp_path / "toy.grammar"
    path.write_bytes(b"languages: de en\n# fine\nSentence: gr\xfcn . | green .\n")

    with pytest.raises(ValueError, match=r"toy\.grammar:3: not UTF-8; save the file as UTF-8"):
        read_grammar(path)


def test_comments_and_empty_lines_keep_the_line_numbers():
    grammar = toy_grammar()

    assert [rule.location.line for rule in grammar.rules["Sentence"]] == [7, 9]
    assert [row.location.line for row in grammar.tables["Noun"].rows] == [16, 17]


def test_indented_line_continues_its_rule():
    (german, english) = toy_grammar().rules["Sentence"][0].sides

    assert len(german) == len(english) == 4
    assert german[0] == english[0] == Phrase("The")


def test_weights_are_one_unless_given():
    grammar = toy_grammar()

    assert [rule.weight for rule in grammar.rules["Sentence"]] == [3.0, 1.0]
    assert grammar.weights == {"sg": 2.0, "pl": 1.0, "m": 1.0, "f": 1.0}


def test_heads_may_name_their_features_in_any_order():
    grammar = toy_grammar(TOY_GRAMMAR.replace("The[sg f]", "The[f sg]"))

    assert grammar.signatures["The"] == ("number", "gender")
    assert grammar.rules["The"][1].head == ("sg", "f")


def test_file_without_a_sentence_is_an_error():
    with pytest.raises(ValueError, match="no rule for Sentence; every sentence grows from"):
        toy_grammar("languages: de en\n")


def test_alternative_values_are_a_variable_of_their_own():
    (rule,) = toy_grammar(
        "languages: a b\nfeature gender: m f n\n"
        "Sentence: One[m/n] One2[m/n] | One One2\n"
        "words One[gender]: * | *\n m/n: x | y\n f: z | z\n"
    ).rules["Sentence"]

    first, second = (rule.mentions[name].arguments[0] for name in ("One", "One2"))
    assert first is not None
    assert second is not None
    assert first != second
    assert rule.domains[first] == rule.domains[second] == ("m", "n")


def test_numbered_feature_is_another_variable():
    (rule,) = toy_grammar(
        "languages: a b\nfeature number: sg pl\n"
        "Sentence: N[number].number N2[number2].number | N.number N2.number2\n"
        "words N[number]: * | sg pl\n sg/pl: x | y ys\n"
    ).rules["Sentence"]

    assert rule.domains == {"number": ("sg", "pl"), "number2": ("sg", "pl")}


def test_parts_of_a_word_are_joined_with_plus():
    (rule,) = toy_grammar(
        "languages: a b\nfeature ending: e en\n"
        'Sentence: Stem.x+<ending>+"Z"+st | Stem\n'
        "words Stem: x | *\n klein | small\n"
    ).rules["Sentence"]

    assert rule.sides[0] == (
        Word(parts=(Form("Stem", ("x",)), Value("ending"), "Z", "st"), groups=("Stem",)),
    )


def test_groups_are_the_word_the_label_or_the_plain_words_of_the_rule():
    (rule,) = toy_grammar(
        "languages: a b\nSentence: plain W do~W one~1 . | plain W one~1 .\nwords W: * | *\n x | y\n"
    ).rules["Sentence"]

    groups = [item.groups for item in rule.sides[0] if isinstance(item, Word)]
    assert groups == [("",), ("W",), ("W",), ("1",), ()]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("languages: de en", "languages: de", 2, "unexpected 'end of the line'; .*: language "),
        ("languages: de en", "", 4, "unexpected 'feature number.*: 'languages' "),
        ("feature number:", "feature Number:", 4, "unexpected 'Number: .*: feature "),
        ("sg*2 pl", "sg*0 pl", 4, "unexpected '0 pl'; .*: weight "),
        ("sg*2 pl", "sg sg", 4, "'sg' is already a feature or a value"),
        ("gender: m f", "gender: m sg", 5, "'sg' is already a feature or a value"),
        ("gender: m f", "gender: number f", 5, "'number' is already a feature or a value"),
        ("gender: m f", "number: m f", 5, "'number' is already a feature or a value"),
        ("# a small language", "  indented", 1, "unexpected 'indented'"),
        ("Sentence: nein . | no .", "Sentence nein . | no .", 9, "unexpected 'nein .*: '\\*', ':'"),
        ("Sentence: nein", "sentence: nein", 9, "unexpected 'sentence: nein"),
        ("Sentence: nein", "Sentence *0: nein", 9, "unexpected '0: nein .*: weight "),
        ("The[sg f]:", "The[sg]:", 12, r"The\[number\] differs from its first rule"),
        ("The[pl gender]: die", "Noun[pl gender]: die", 15, "Noun has rules or a table already"),
        ("words Noun[gender]", "words Noun[sex]", 15, "'sex' is neither a feature nor a value"),
        ("words Noun[gender]", "words Verb[gender]", 19, "Verb has rules or a table already"),
        (
            "  m: Hund",
            "  sg: Hund",
            16,
            "Noun has the features 'gender'; write a value .* not 'sg'",
        ),
        ("  m: Hund", "  Hund", 16, "Noun has the features 'gender'; write a value .* not ''"),
        (
            "  m: Hund",
            "  m sg: Hund",
            16,
            "Noun has the features 'gender'; write a value .* not 'm sg'",
        ),
        ("dog dogs", "dog", 16, "1 form for en, but Noun has 2 columns there"),
        ("Hund Hunde |", "Hund Hunde", 16, "1 side, but the languages are de, en"),
        ("  schläft schlafen | sleep sleeps\n", "", 19, "unexpected 'end of the line'; .*: row "),
        ("| * sg\n", "\n", 19, "1 side, but the languages are de, en"),
        ("* sg\n", "* sg\n  a b | c d\nVerb: x | y\n", 21, "Verb is a table of words already"),
        ("nein . | no .", "nein .", 9, "1 side, but the languages are de, en"),
        ("nein . | no .", "nein . | no . | non .", 9, "3 sides, but the languages are de, en"),
        ("nein . | no .", "nein[ . | no .", 9, r"unexpected '\[ \. "),
        ("nein . | no .", 'nein" . | no .', 9, "unexpected '\" . "),
        ("nein . | no .", "nein~ . | no .", 9, "unexpected '~ . "),
        ("nein . | no .", "The[sg m]x . | no .", 9, "unexpected 'x . "),
        ("nein . | no .", "nein<gender> . | no .", 9, "unexpected '<gender> . "),
        ("nein . | no .", "nein+<case> . | no .", 9, "'case' is neither a feature nor a value"),
        ("nein . | no .", "Nein . | no .", 9, "unknown head 'Nein'; add a rule or a table"),
        ("nein . | no .", "nein The[sg m] . | no .", 9, "The must appear once on the side of en"),
        ("| The Noun", "| The The Noun", 7, "The must appear once on the side of en"),
        ("nein . | no .", "nein . | .", 9, "the plain words on another side: nothing to link with"),
        ("nein . | no .", "nein Verb.sg . | no .", 9, "'Verb' on another side: nothing to link"),
        ("nein . | no .", "nein~1 . | no~1 x~2 .", 9, "'2' on another side: .* side of de"),
        ("nein . | no .", "The~1 . | no~1 .", 9, r"The is a phrase; \+ and ~ are for words"),
        ("nein . | no .", "x+The . | no .", 9, r"The is a phrase; \+ and ~ are for words"),
        ("nein . | no .", "The.sg . | The .", 9, "The.sg: The is not a table"),
        ("The[sg m]:", "The[sg m x]:", 11, "'x' is neither a feature nor a value of one"),
        ("The[sg m]:", "The[sg m/x]:", 11, "'m/x' is neither a feature nor a value of one"),
        ("The[sg m]:", "The[sg m/pl]:", 11, "'m/pl' is neither a feature nor a value of one"),
        ("The[number gender]", "The[number sg]", 7, "'sg' does not belong here; The has the"),
        ("| The Noun", "| The[pl] Noun", 7, "give features at the first mention only"),
        ("Noun[gender].number", "Noun[gender].dat", 7, "Noun.dat: no such form; the table has"),
    ],
)
def test_error_names_its_line_and_the_rule(old, new, line, message):
    assert TOY_GRAMMAR.count(old) >= 1

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}") as caught:
        toy_grammar(TOY_GRAMMAR.replace(old, new, 1))

    assert "\n" not in str(caught.value)


def test_words_may_hold_marks_and_signs():
    (rule,) = toy_grammar("languages: a b\nSentence: z.B. *2 -x , 'n ?! . |a:b\n").rules["Sentence"]

    assert [item.parts for item in rule.sides[0]] == [
        ("z.B.",),
        ("*2",),
        ("-x",),
        (",",),
        ("'n",),
        ("?!",),
        (".",),
    ]
    assert rule.sides[1] == (Word(parts=("a:b",), groups=("",)),)


@pytest.mark.parametrize("line", ["\0" * 50_000, "x" * 50_000])
def test_a_line_that_is_no_rule_is_not_shown_whole(line):
    with pytest.raises(ValueError, match=r"toy.grammar:1: ") as caught:
        toy_grammar(line)

    assert len(str(caught.value)) < 200
