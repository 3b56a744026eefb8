"""Sentences drawn from a grammar have the text and the links of its rules."""

import random
from collections import Counter

import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data import Pair
from seq2seq.data.grammar.generator import PairGenerator, build_choices
from seq2seq.data.grammar.grammar import parse_grammar

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


def test_words_of_a_sentence_agree():
    pairs = draw_all(ARTICLES)

    assert {pair[:2] for pair in pairs} == {
        ("Der Hund ruft an.", "The dog calls."),
        ("Die Katze ruft an.", "The cat calls."),
        ("Die Hunde rufen an.", "The dogs call."),
        ("Die Katzen rufen an.", "The cats call."),
    }


def test_same_seed_draws_the_same_sentences_in_either_direction():
    forth, back = generator(ARTICLES), generator(ARTICLES, source="en", target="de")
    rng_forth, rng_back = random.Random(3), random.Random(3)

    for _ in range(20):
        assert forth.draw(rng_forth).source == back.draw(rng_back).target


def test_draws_depend_on_the_seed_alone():
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


@pytest.mark.parametrize(
    ("body", "source", "target", "links"),
    [
        ("im haus | in the house", "Im haus", "In the house", "00 01 02 10 11 12"),
        ("eins~1 zwei~2 ! | two~2 one~1 !", "Eins zwei!", "Two one!", "01 10"),
        (
            "Verb.sg er~1 ? | does~Verb he~1 Verb ?\nwords Verb: sg | *\n  ruft | call",
            "Ruft er?",
            "Does he call?",
            "00 02 11",
        ),
        ("X X2 | X2 X\nX: x | y", "X x", "Y y", "01 10"),
        (
            "Stem+es+Stem2 | Stem Stem2\nwords Stem: * | *\n  klein | small",
            "Kleinesklein",
            "Small small",
            "00 01",
        ),
        ("Often W.a W.b | W Often\nOften: - | -\nwords W: a b | *\n  x - | y", "X", "Y", "00"),
        ("a , b~1 . | c d~1 .", "A, b.", "C d.", "00 11"),
    ],
    ids=["plain", "labels", "form", "two rules", "joined", "dash", "marks"],
)
def test_words_are_linked_as_the_rule_says(body, source, target, links):
    expected = frozenset((int(s), int(t)) for s, t in links.split())

    assert draw_one(body) == Pair(source, target, expected)


def test_value_of_a_feature_is_part_of_a_word():
    pairs = draw_all(
        "languages: de en\nfeature ending: e en\n"
        "Sentence: Stem+<ending> | Stem\nwords Stem: * | *\n  klein | small\n"
    )

    assert {pair.source for pair in pairs} == {"Kleine", "Kleinen"}


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
def test_marks_are_joined_to_the_word_before_them(body, text):
    assert draw_one(f"{body} | x").source == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sentence *3: a | b\nSentence: c | d\n", 750),
        (
            "feature number: sg*4 pl\nSentence: W.number | W.number\n"
            "words W: sg pl | sg pl\n  a as | b bs\n",
            800,
        ),
    ],
    ids=["rule", "value"],
)
def test_weights_are_shares_of_the_sentences(text, expected):
    drawn = generator(f"languages: de en\n{text}")
    rng = random.Random(7)

    counts = Counter(drawn.draw(rng).source for _ in range(1000))

    assert counts["A"] == pytest.approx(expected, abs=60)


def test_rules_may_contain_themselves():
    pairs = draw_all("languages: de en\nSentence: A | A\nA: x A | A y\nA: x | y\n", num=300)

    depths = {len(pair.source.split()) for pair in pairs}
    assert {1, 2, 3, 4} <= depths
    assert all(len(pair.links or ()) == len(pair.source.split()) for pair in pairs)


def test_rules_whose_sentences_hardly_ever_end_are_an_error():
    drawn = generator(
        "languages: de en\nSentence: A A2 A3 | A A2 A3\nA *999: A A2 | A A2\nA: x | y\n"
    )

    with pytest.raises(ValueError, match=r"toy\.grammar: 100 sentences in a row grew past 200"):
        drawn.draw(random.Random(1))


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


def test_third_language_is_one_more_column_and_does_not_change_the_others():
    two, three = generator(ARTICLES), generator(THREE_LANGUAGES)
    rng_two, rng_three = random.Random(2), random.Random(2)

    pairs = draw_all(THREE_LANGUAGES, source="de", target="fr")

    links = frozenset({(0, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)})
    assert Pair("Die Hunde rufen an.", "Les chiens ne appellent.", links) in pairs
    assert len(pairs) == 4
    for _ in range(20):
        assert two.draw(rng_two) == three.draw(rng_three)


@pytest.mark.parametrize(
    ("source", "target", "key"), [("fr", "en", "source"), ("de", "fr", "target")]
)
def test_unknown_language_names_those_of_the_file(source, target, key):
    with pytest.raises(ValueError, match=rf"data\.{key}=fr: toy\.grammar has the languages de, en"):
        generator(ARTICLES, source=source, target=target)


@pytest.mark.parametrize(
    ("labels", "column"), [("sg", 1), ("pl", 2), ("pl.dat", 3), ("dat.sg", 1), ("nom", 0), ("", 0)]
)
def test_column_with_most_of_the_labels_is_chosen(labels, column):
    form = f"N.{labels}".rstrip(".")
    text = "words N: * sg pl pl.dat nom.acc | *\n w0 w1 w2 w3 w4 | n\n"

    assert draw_one(f"{form} | N\n{text}").source == f"W{column}"


def test_weight_of_a_rule_is_shared_by_the_weights_of_its_values():
    start = build_choices(toy_grammar())

    # sg m, sg f, pl m, pl f of the first rule; the second rule
    assert start.sums == pytest.approx([1.0, 2.0, 2.5, 3.0, 4.0])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\nwords V", "\nAlone: x | y\n\nwords V", 19, "unreachable rule of Alone: no sentence"),
        ("The[number gender] Noun[gender]", "The[number m] Noun[m]", 12, "unreachable rule of The"),
        ("Noun[gender].number", "Noun[f].number", 16, "unreachable word of Noun: no sentence asks"),
        (
            "The[sg f]: die | the",
            "The[sg f]: The2[sg f] | The2",
            12,
            r"rule of The: nothing fits The2\[sg f\]",
        ),
        ("nein . | no .", "Loop | Loop\nLoop: x Loop | y Loop", 9, "unproductive .* fits Loop"),
        ("m f\n", "m f n\nSentence: Noun[n].sg | Noun.sg\n", 6, r"unproductive .* Noun\[n\]"),
        ("| The Noun.number", "| The Noun", 7, "Noun.: no column of Noun fits for en"),
        ("* sg\n", "sg sg\n", 7, "two columns of Verb fit sg; name one more label"),
    ],
)
def test_what_no_sentence_can_use_is_an_error(old, new, line, message):
    grammar = toy_grammar(TOY_GRAMMAR.replace(old, new, 1))

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}"):
        build_choices(grammar)


def test_a_rule_with_too_many_combinations_is_refused_before_they_are_tried():
    features = [f"f{chr(97 + i)}" for i in range(12)]
    lines = ["languages: de en"]
    lines += [f"feature {name}: {name}x {name}y {name}z" for name in features]
    words = " ".join(f"<{name}>" for name in features)
    lines += [f"Sentence: {words} | {words}"]

    with pytest.raises(ValueError, match=r"more than 10,000 combinations .* features .12.;"):
        build_choices(toy_grammar("\n".join(lines)))
