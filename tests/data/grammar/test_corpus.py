"""The bundled corpus is distinct, reproducible, nearly one to one, and aligned word by word."""

import hashlib
import random
from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pytest
from tiny_data import shared

from seq2seq.config.schema import load_config
from seq2seq.data import GrammarConfig, Pair, load_corpora
from seq2seq.data.grammar.generator import PairGenerator
from seq2seq.data.grammar.grammar import read_grammar
from seq2seq.evaluation.alignment import GoldLinks, alignment_error_rate, diagonal_links

BUNDLED = Path(__file__).parents[3] / "data" / "german-english.grammar"

PLAIN = """\
languages: de en
Sentence: Word Word2 Word3 . | Word3 Word2 Word .
words Word: * | *
  eins | one
  zwei | two
  drei | three
  vier | four
"""
# 64 sentences, every one with one translation

SMALL = """\
languages: de en
Sentence: Number Noun . | Number Noun .
words Number: * | *
  zwei | two
  drei | three
  vier | four
words Noun: * | *
  Hunde | dogs
  Katzen | cats
  Vögel | birds
  Tiere | dogs
"""
# 12 sentences in German, 9 in English


def make_config(
    grammar: Path | str = BUNDLED,
    *,
    source: str = "de",
    target: str = "en",
    seed: int = 1,
    sizes: tuple[int, int, int] = (300, 40, 50),
) -> GrammarConfig:
    num_train, num_valid, num_test = sizes
    return GrammarConfig(
        **shared(name="grammar", source=source, target=target),
        grammar=str(grammar),
        seed=seed,
        num_train=num_train,
        num_valid=num_valid,
        num_test=num_test,
    )


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.grammar"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.grammar"
    path.write_text(PLAIN, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpora():
    return load_corpora(make_config(sizes=(700, 100, 200)))


@pytest.fixture(scope="module")
def pairs(corpora):
    return [pair for corpus in corpora[:3] for pair in corpus]


def test_sources_and_targets_are_distinct(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == 1000
    assert len({pair.target for pair in pairs}) == len(pairs)


def test_pairs_follow_the_seed_and_not_the_order_of_reading(plain):
    corpora, same, other = (
        load_corpora(make_config(plain, seed=seed, sizes=(7, 3, 5))) for seed in (1, 1, 2)
    )
    assert [(each.name, len(list(each))) for each in other[:3]] == [
        ("train", 7),
        ("valid", 3),
        ("test", 5),
    ]

    test_first = [list(corpora.test), list(corpora.train), list(corpora.test)]
    train_first = [list(same.train), list(same.test)]

    assert test_first[0] == test_first[2] == train_first[1]
    assert test_first[1] == train_first[0] != list(other.train)


def test_larger_training_set_does_not_change_validation_and_test(plain):
    small = load_corpora(make_config(plain, sizes=(10, 4, 5)))
    large = load_corpora(make_config(plain, sizes=(20, 4, 5)))

    assert list(small.valid) == list(large.valid)
    assert list(small.test) == list(large.test)
    assert list(small.train) == list(large.train)[:10]


def test_other_direction_has_the_same_pairs_with_links_transposed():
    sizes = (30, 4, 5)
    forth = load_corpora(make_config(sizes=sizes))
    back = load_corpora(make_config(source="en", target="de", sizes=sizes))

    assert [_swap(pair) for pair in forth.train] == list(back.train)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"num_train": 301},
        {"num_valid": 41},
        {"num_test": 51},
        {"source": "en", "target": "de"},
    ],
    ids=["seed", "num_train", "num_valid", "num_test", "languages"],
)
def test_fingerprint_follows_the_configuration(plain, change):
    config = make_config(plain)
    before = load_corpora(config)
    again = load_corpora(config)

    assert len({corpus.fingerprint for corpus in before[:3]}) == 3
    assert [corpus.fingerprint for corpus in before[:3]] == [each.fingerprint for each in again[:3]]
    changed = load_corpora(replace(config, **change))
    assert changed.train.fingerprint != before.train.fingerprint


def test_fingerprint_follows_the_text_of_the_grammar_and_not_its_path(tmp_path):
    fingerprints = []
    for name, text in [("a", SMALL), ("b", SMALL), ("c", SMALL.replace("birds", "fowls"))]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        corpora = load_corpora(make_config(tmp_path / name, sizes=(3, 1, 2)))
        fingerprints.append(corpora.train.fingerprint)

    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_every_distinct_sentence_of_a_small_grammar_is_found_and_more_are_an_error(small):
    corpora = load_corpora(make_config(small, sizes=(6, 1, 2)))
    too_many = load_corpora(make_config(small, sizes=(7, 1, 2)))

    targets = {pair.target for corpus in corpora[:3] for pair in corpus}

    nouns = ("dogs", "cats", "birds")
    assert targets == {f"{n} {noun}." for n in ("Two", "Three", "Four") for noun in nouns}
    with pytest.raises(ValueError, match=r"small\.grammar:2: Sentence gives only 9 .* = 10; ask"):
        list(too_many.train)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("~nobodyatall/a", r"^data\.grammar=~nobodyatall/a: ~nobodyatall is not a home"),
        ("no/such", r"^data\.grammar=no/such does not exist; give"),
    ],
)
def test_a_wrong_path_names_the_key(path, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_corpora(make_config(path))


def test_error_in_the_file_comes_before_any_pair_is_drawn(small):
    small.write_text(SMALL + "Alone: x | y\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"small\.grammar:12: unreachable rule of Alone"):
        load_corpora(make_config(small))


def test_sentences_are_like_text(pairs):
    for texts in zip(*((pair.source, pair.target) for pair in pairs), strict=True):
        words = [text.split() for text in texts]
        lengths = [len(sentence) for sentence in words]
        assert all(text[0].isupper() and text[-1] in ".?" for text in texts)
        assert [" ".join(sentence) for sentence in words] == list(texts)
        assert all(word.rstrip(".,?").isalpha() for word in chain(*words))
        assert 150 <= len({word.rstrip(".,?").lower() for word in chain(*words)}) <= 350
        assert sum(3 <= length <= 16 for length in lengths) / len(lengths) > 0.98
        assert max(lengths) <= 24
        assert 7 < sum(lengths) / len(lengths) < 10


def test_characters_of_a_sentence_are_no_more_than_the_default_max_length(pairs):
    longest = max(len(text) for pair in pairs for text in (pair.source, pair.target))

    assert longest <= load_config("data=grammar").data.max_length


def test_articles_and_commas_follow_the_rules_of_the_language(pairs):
    for pair in pairs:
        for before, word in pairwise(pair.target.lower().split()):
            assert before != "a" or word[0] not in "aeiou"
        for before, word in pairwise(pair.source.split()):
            assert word not in ("weil", "obwohl", "wenn", "dass", "ob") or before.endswith(",")


def test_phenomena_occur_and_are_linked(pairs):
    linked = {
        (_bare(pair.source, source), _bare(pair.target, target))
        for pair in pairs
        for source, target in pair.links or ()
    }

    expected = "nicht-not kein-no zehn-ten dass-that weil-because an-calls gesehen-seen kann-can "
    expected += "wer-who wen-whom ruft-does schwarzes-black den-the"
    assert {tuple(words.split("-")) for words in expected.split()} <= linked


def test_every_word_is_linked(pairs):
    for pair in pairs:
        assert {s for s, _ in pair.links or ()} == set(range(len(pair.source.split())))
        assert {t for _, t in pair.links or ()} == set(range(len(pair.target.split())))


def test_one_link_for_each_target_word_is_nearly_the_gold_alignment(pairs):
    gold = [GoldLinks(pair.links, pair.links) for pair in pairs]
    first_links = [
        frozenset((min(s for s, target in pair.links if target == t), t) for _, t in pair.links)
        for pair in pairs
    ]
    diagonals = [
        diagonal_links(len(pair.source.split()), len(pair.target.split())) for pair in pairs
    ]

    assert alignment_error_rate(first_links, gold) <= 0.06
    assert alignment_error_rate(diagonals, gold) >= 0.35


def test_no_sentence_has_two_translations():
    # A corpus drops second translations, so look at what it draws from.
    generator = PairGenerator(read_grammar(BUNDLED), source="de", target="en")
    rng = random.Random(4)
    translations: dict[str, set[str]] = {}
    for pair in (generator.draw(rng) for _ in range(1500)):
        translations.setdefault(pair.source, set()).add(pair.target)
        translations.setdefault(pair.target, set()).add(pair.source)

    assert Counter(len(texts) for texts in translations.values()).keys() == {1}


def test_pairs_do_not_change():
    # An edited grammar needs a new digest here. The same grammar must give the same pairs, or
    # _GENERATOR_VERSION must be raised.
    corpora = load_corpora(make_config())

    text = repr([(pair.source, pair.target, sorted(pair.links)) for pair in corpora.train])
    assert (
        hashlib.sha256(text.encode()).hexdigest()
        == "be92655e1914addf8f57fe945dc59d7a110c96b844aa04cd2b95a2193b523a30"
    )


def _swap(pair: Pair) -> Pair:
    return Pair(pair.target, pair.source, frozenset((t, s) for s, t in pair.links or ()))


def _bare(text: str, index: int) -> str:
    return text.split()[index].rstrip(".,?").lower()
