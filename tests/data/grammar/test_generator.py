"""Sentences drawn from a grammar have the text and the links of its rules."""

import random
from collections import Counter

import pytest

from seq2seq.data import Pair
from seq2seq.data.grammar.generator import PairGenerator
from seq2seq.data.grammar.parser import parse_grammar

ARTICLES = """\
languages: de en
feature number: sg pl
feature gender: m f
Sentence: The[number gender] Noun[gender].number Verb.number Verb.prefix .
        | The Noun.number Verb.number .
The[sg m]: der | the
The[sg f]: die | the
The[pl gender]: die | the
words Noun[gender]: sg pl | sg pl
  m: Hund Hunde | dog dogs
  f: Katze Katzen | cat cats
words Verb: sg pl prefix | * sg
  ruft rufen an | call calls
"""


def generator(text: str, *, source: str = "de", target: str = "en") -> PairGenerator:
    grammar = parse_grammar(text, path="toy.grammar")
    return PairGenerator(grammar, source=source, target=target)


def draw_all(text: str, *, source: str = "de", target: str = "en", num: int = 200) -> set[Pair]:
    rng = random.Random(5)
    drawn = generator(text, source=source, target=target)
    return {drawn.draw(rng) for _ in range(num)}


def draw_one(body: str) -> Pair:
    (pair,) = draw_all(f"languages: de en\nSentence: {body}\n", num=3)
    return pair


def test_words_of_a_sentence_agree() -> None:
    pairs = draw_all(ARTICLES)

    assert {pair[:2] for pair in pairs} == {
        ("Der Hund ruft an.", "The dog calls."),
        ("Die Katze ruft an.", "The cat calls."),
        ("Die Hunde rufen an.", "The dogs call."),
        ("Die Katzen rufen an.", "The cats call."),
    }


def test_forms_of_one_word_are_linked_with_each_other() -> None:
    for pair in draw_all(ARTICLES):
        assert pair.links == frozenset({(0, 0), (1, 1), (2, 2), (3, 2)})


def test_links_of_the_other_direction_are_transposed() -> None:
    forth = draw_all(ARTICLES)
    back = draw_all(ARTICLES, source="en", target="de")

    assert back == {
        Pair(pair.target, pair.source, frozenset((t, s) for s, t in pair.links or ()))
        for pair in forth
    }


def test_same_seed_draws_the_same_sentences_in_either_direction() -> None:
    forth, back = generator(ARTICLES), generator(ARTICLES, source="en", target="de")
    rng_forth, rng_back = random.Random(3), random.Random(3)

    for _ in range(20):
        assert forth.draw(rng_forth).source == back.draw(rng_back).target


def test_draws_depend_on_the_seed_alone() -> None:
    # Written down, so that another version of Python or of this program cannot change them.
    drawn = generator(ARTICLES)
    rng = random.Random(1)

    sources = [drawn.draw(rng).source for _ in range(4)]

    assert sources == [
        "Der Hund ruft an.",
        "Die Katzen rufen an.",
        "Die Katzen rufen an.",
        "Die Katze ruft an.",
    ]


def test_plain_words_of_a_rule_are_linked_all_with_all() -> None:
    assert draw_one("im haus | in the house") == Pair(
        "Im haus", "In the house", frozenset((s, t) for s in range(2) for t in range(3))
    )


def test_label_links_words_that_cross() -> None:
    assert draw_one("eins~1 zwei~2 ! | two~2 one~1 !") == Pair(
        "Eins zwei!", "Two one!", frozenset({(0, 1), (1, 0)})
    )


def test_word_with_the_label_of_a_table_is_linked_with_its_forms() -> None:
    pair = draw_one("Verb.sg er~1 ? | does~Verb he~1 Verb ?\nwords Verb: sg | *\n  ruft | call")

    assert pair == Pair("Ruft er?", "Does he call?", frozenset({(0, 0), (0, 2), (1, 1)}))


def test_same_words_of_two_rules_are_not_linked() -> None:
    pair = draw_one("X X2 | X2 X\nX: x | y")

    assert pair == Pair("X x", "Y y", frozenset({(0, 1), (1, 0)}))


def test_joined_parts_are_one_word() -> None:
    pair = draw_one("Stem+es+Stem2 | Stem Stem2\nwords Stem: * | *\n  klein | small")

    assert pair == Pair("Kleinesklein", "Small small", frozenset({(0, 0), (0, 1)}))


def test_value_of_a_feature_is_part_of_a_word() -> None:
    pairs = draw_all(
        "languages: de en\nfeature ending: e en\n"
        "Sentence: Stem+<ending> | Stem\nwords Stem: * | *\n  klein | small\n"
    )

    assert {pair.source for pair in pairs} == {"Kleine", "Kleinen"}


def test_dash_is_no_word_in_a_row_and_in_a_rule() -> None:
    pair = draw_one("Often W.a W.b | W Often\nOften: - | -\nwords W: a b | *\n  x - | y")

    assert pair == Pair("X", "Y", frozenset({(0, 0)}))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("a , b .", "A, b."),
        ("a , .", "A."),
        ("a , , b ?", "A, b?"),
        (". a", "A"),
        ('"Anna" und \u00fcber !', "Anna und \u00fcber!"),
        ("\u00fcber", "\u00dcber"),
    ],
)
def test_marks_are_joined_to_the_word_before_them(body: str, text: str) -> None:
    assert draw_one(f"{body} | x").source == text


def test_marks_have_no_links() -> None:
    assert draw_one("a , b~1 . | c d~1 .").links == frozenset({(0, 0), (1, 1)})


def test_weight_of_a_rule_is_its_share_of_the_sentences() -> None:
    drawn = generator("languages: de en\nSentence *3: a | b\nSentence: c | d\n")
    rng = random.Random(7)

    counts = Counter(drawn.draw(rng).source for _ in range(1000))

    assert counts["A"] == pytest.approx(750, abs=60)


def test_weight_of_a_value_is_its_share_of_the_sentences() -> None:
    drawn = generator(
        "languages: de en\nfeature number: sg*4 pl\n"
        "Sentence: W.number | W.number\nwords W: sg pl | sg pl\n  a as | b bs\n"
    )
    rng = random.Random(7)

    counts = Counter(drawn.draw(rng).source for _ in range(1000))

    assert counts["A"] == pytest.approx(800, abs=60)


def test_rules_may_contain_themselves() -> None:
    pairs = draw_all("languages: de en\nSentence: A | A\nA: x A | A y\nA: x | y\n", num=300)

    depths = {len(pair.source.split()) for pair in pairs}
    assert {1, 2, 3, 4} <= depths
    assert all(len(pair.links or ()) == len(pair.source.split()) for pair in pairs)


def test_rules_whose_sentences_hardly_ever_end_are_an_error() -> None:
    drawn = generator(
        "languages: de en\nSentence: A A2 A3 | A A2 A3\nA *999: A A2 | A A2\nA: x | y\n"
    )

    with pytest.raises(ValueError, match=r"toy\.grammar: 100 sentences in a row grew past 200"):
        drawn.draw(random.Random(1))


def test_added_rule_and_word_are_drawn() -> None:
    text = ARTICLES + "  bellt bellen - | bark barks\nSentence: nein . | no .\n"

    sources = {pair.source for pair in draw_all(text)}

    assert {"Nein.", "Der Hund bellt.", "Die Katzen rufen an."} <= sources


THREE_LANGUAGES = """\
languages: de en fr
feature number: sg pl
feature gender: m f
Sentence: The[number gender] Noun[gender].number Verb.number Verb.prefix .
        | The Noun.number Verb.number .
        | The Noun.number ne~Verb Verb.number .
The[sg m]: der | the | le
The[sg f]: die | the | la
The[pl gender]: die | the | les
words Noun[gender]: sg pl | sg pl | sg pl
  m: Hund Hunde | dog dogs | chien chiens
  f: Katze Katzen | cat cats | chatte chattes
words Verb: sg pl prefix | * sg | sg pl
  ruft rufen an | call calls | appelle appellent
"""


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (
            "de",
            "fr",
            Pair(
                "Die Hunde rufen an.",
                "Les chiens ne appellent.",
                frozenset({(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)}),
            ),
        ),
        (
            "fr",
            "en",
            Pair(
                "La chatte ne appelle.",
                "The cat calls.",
                frozenset({(0, 0), (1, 1), (2, 2), (3, 2)}),
            ),
        ),
    ],
)
def test_third_language_is_one_more_column(source: str, target: str, expected: Pair) -> None:
    pairs = draw_all(THREE_LANGUAGES, source=source, target=target)

    assert expected in pairs
    assert len(pairs) == 4


def test_added_language_does_not_change_the_others() -> None:
    two, three = generator(ARTICLES), generator(THREE_LANGUAGES)
    rng_two, rng_three = random.Random(2), random.Random(2)

    for _ in range(20):
        assert two.draw(rng_two) == three.draw(rng_three)


@pytest.mark.parametrize(
    ("source", "target", "key"), [("fr", "en", "source"), ("de", "fr", "target")]
)
def test_unknown_language_names_those_of_the_file(source: str, target: str, key: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.{key}=fr: toy\.grammar has the languages de, en"):
        generator(ARTICLES, source=source, target=target)
