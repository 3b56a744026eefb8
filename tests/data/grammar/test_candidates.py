import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data.grammar.candidates import find_candidates


def check(text: str) -> None:
    find_candidates(toy_grammar(text))


def test_unreachable_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"toy\.grammar:21: unreachable rule of Alone: "):
        check(TOY_GRAMMAR + "Alone: x | y\n")


def test_rule_for_features_that_no_rule_mentions_is_an_error() -> None:
    text = TOY_GRAMMAR.replace("The[number gender] Noun[gender]", "The[number m] Noun[m]")

    with pytest.raises(ValueError, match=r":12: unreachable rule of The: .* The\[sg f\]"):
        check(text)


def test_unreachable_word_is_an_error() -> None:
    text = TOY_GRAMMAR.replace("Noun[gender].number", "Noun[f].number")

    with pytest.raises(ValueError, match=r":16: unreachable word of Noun: no sentence asks for"):
        check(text)


def test_rule_that_never_becomes_words_is_an_error() -> None:
    text = TOY_GRAMMAR + "Sentence: Loop | Loop\nLoop: x Loop | y Loop\n"

    with pytest.raises(ValueError, match=r":21: unproductive rule of Sentence: nothing fits Loop"):
        check(text)


def test_rule_whose_features_no_word_has_is_an_error() -> None:
    text = TOY_GRAMMAR.replace("gender: m f", "gender: m f n") + "Sentence: Noun[n].sg | Noun.sg\n"

    with pytest.raises(ValueError, match=r":21: unproductive rule .* nothing fits Noun\[n\]"):
        check(text)


def test_combination_of_features_that_no_word_has_is_no_candidate() -> None:
    grammar = toy_grammar(TOY_GRAMMAR.replace("gender: m f", "gender: m f n"))

    candidates = find_candidates(grammar)[("Sentence", ())]

    genders = {candidate.values["gender"] for candidate in candidates if candidate.values}
    assert genders == {"m", "f"}


def test_a_rule_with_too_many_combinations_is_refused_before_they_are_tried() -> None:
    features = [f"f{chr(97 + i)}" for i in range(12)]
    lines = ["languages: de en"]
    lines += [f"feature {name}: {name}x {name}y {name}z" for name in features]
    words = " ".join(f"<{name}>" for name in features)
    lines += [f"Sentence: {words} | {words}"]

    with pytest.raises(ValueError, match=r"more than 10,000 combinations .* its 12 features"):
        find_candidates(toy_grammar("\n".join(lines)))
