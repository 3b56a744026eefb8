import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data.grammar.grammar import Form, Value, Word


def test_alternative_values_are_a_variable_of_their_own() -> None:
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


def test_numbered_feature_is_another_variable() -> None:
    (rule,) = toy_grammar(
        "languages: a b\nfeature number: sg pl\n"
        "Sentence: N[number].number N2[number2].number | N.number N2.number2\n"
        "words N[number]: * | sg pl\n sg/pl: x | y ys\n"
    ).rules["Sentence"]

    assert rule.domains == {"number": ("sg", "pl"), "number2": ("sg", "pl")}


def test_parts_of_a_word_are_joined_with_plus() -> None:
    (rule,) = toy_grammar(
        "languages: a b\nfeature ending: e en\n"
        'Sentence: Stem.x+<ending>+"Z"+st | Stem\n'
        "words Stem: x | *\n klein | small\n"
    ).rules["Sentence"]

    assert rule.sides[0] == (
        Word(parts=(Form("Stem", ("x",)), Value("ending"), "Z", "st"), groups=("Stem",)),
    )


def test_groups_are_the_word_the_label_or_the_plain_words_of_the_rule() -> None:
    (rule,) = toy_grammar(
        "languages: a b\nSentence: plain W do~W one~1 . | plain W one~1 .\nwords W: * | *\n x | y\n"
    ).rules["Sentence"]

    groups = [item.groups for item in rule.sides[0] if isinstance(item, Word)]
    assert groups == [("",), ("W",), ("W",), ("1",), ()]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("nein . | no .", "nein .", 9, "1 sides, but the languages are de, en"),
        ("nein . | no .", "nein . | no . | non .", 9, "3 sides, but the languages are de, en"),
        ("nein . | no .", "nein[ . | no .", 9, "an unmatched bracket or quote"),
        ("nein . | no .", 'nein" . | no .', 9, "an unmatched bracket or quote"),
        ("nein . | no .", "nein[m] . | no .", 9, r"'nein\[m\]' cannot be read \(side of de\)"),
        ("nein . | no .", "nein~ . | no .", 9, "a label of letters or digits must follow"),
        ("nein . | no .", "nein+<case> . | no .", 9, "<case>: 'case' is not a feature"),
        ("nein . | no .", "Nein . | no .", 9, "unknown head 'Nein'; add a rule or a table"),
        ("nein . | no .", "nein The[sg m] . | no .", 9, "The stands 0 times on the side of en"),
        ("| The Noun", "| The The Noun", 7, "The stands 2 times on the side of en"),
        ("nein . | no .", "nein . | .", 9, "the plain words on another side: nothing to link with"),
        ("nein . | no .", "nein Verb.sg . | no .", 9, "'Verb' on another side: nothing to link"),
        ("nein . | no .", "nein~1 . | no~2 .", 9, "'2' on another side: nothing to link with"),
        ("nein . | no .", "The~1 . | no~1 .", 9, "The is a phrase; \\+ and ~ are for words"),
        ("nein . | no .", "The+x . | no .", 9, "The is a phrase; \\+ and ~ are for words"),
        ("nein . | no .", "The.sg . | The .", 9, "The.sg: The is not a table"),
        ("The[sg m]:", "The[sg m x]:", 11, "'x' is neither a feature nor a value of one"),
        ("The[sg m]:", "The[sg m/x]:", 11, "'m/x' is neither a feature nor a value of one"),
        ("The[sg m]:", "The[sg m/pl]:", 11, "'m/pl' is neither a feature nor a value of one"),
        ("The[number gender]", "The[number sg]", 7, "'sg' does not belong here; The has the"),
        ("| The Noun", "| The[pl] Noun", 7, "the features stand at the first mention only"),
        ("Noun[gender].number", "Noun[gender].dat", 7, "Noun.dat: no such form; the table has"),
    ],
)
def test_error_in_a_rule_names_its_line(old: str, new: str, line: int, message: str) -> None:
    assert TOY_GRAMMAR.count(old) >= 1

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}"):
        toy_grammar(TOY_GRAMMAR.replace(old, new, 1))
