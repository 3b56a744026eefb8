from dataclasses import replace

import numpy as np
import pytest
from tiny_data import list_corpus, shared

from seq2seq.data.batching import EncodedCorpus
from seq2seq.data.cache import encode_corpus
from seq2seq.data.config import DataConfig
from seq2seq.data.quality import (
    PairRules,
    clean,
    hash_text,
    warn_of_shared,
)
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer

TOKENIZERS = TokenizerPair(*[CharacterTokenizer("ab.0123456789")] * 2)
LENGTHS = np.random.default_rng(1).integers(10, 30, 700)
SOURCES = [f"{row}".ljust(length, "a") for row, length in enumerate(LENGTHS)]
DISTINCT = [(f"{row}", f"{row}.") for row in range(500)]


@pytest.fixture
def config(tmp_path):
    cache_dir = str(tmp_path / "cache")
    languages = {"source": "a", "target": "b"}  # unknown ones, whose texts are not checked
    return DataConfig(**shared(cache_dir=cache_dir, max_length=50, **languages))


def encode(pairs: list[tuple[str, str]], config: DataConfig) -> EncodedCorpus:
    return encode_corpus(list_corpus(pairs), TOKENIZERS, config)


def shifted(pairs: list[tuple[str, str]], first: int, lines: int) -> list[tuple[str, str]]:
    """Return pairs whose targets, from a pair on, are those of some pairs later."""
    sources, targets = zip(*pairs, strict=True)
    return list(zip(sources, targets[:first] + targets[first + lines :], strict=False))


@pytest.mark.parametrize(
    ("pairs", "warning"),
    [
        (
            [("a" * 40, "b" * 8 + "y")],
            "1 of 9 target tokens are unknown; use subwords (tokenizer=unigram), a larger "
            "vocabulary, a lower tokenizer.min_frequency of words or characters",
        ),
        (
            [*DISTINCT, *[("a" * 20, "a" * 20)] * 21],
            "among 521 that were checked: 21 with the same sentence on both sides; seq2seq-prepare",
        ),
        (
            [("Source", "a"), *DISTINCT],
            "among 501 that were checked: 1 with names of columns; seq2seq",
        ),
        (
            [*DISTINCT, *[("1 &lt; <b>2</b>", "1")] * 21],
            "checked: 21 with HTML tags, 21 with HTML entities; seq2seq-prepare removes them",
        ),
        (
            shifted([(each, each + "b") for each in SOURCES], 350, 1),
            "around pair 415 fit the targets around pair 414",
        ),
        (
            shifted([(each, each + "b") for each in SOURCES], 350, 3),
            "pair 388 fit the targets around pair 385",
        ),
        (shifted([(each, each + "b") for each in SOURCES], 0, 1), "around pair 104 fit"),
        (
            [(each, "b" * (1 + row % 7)) for row, each in enumerate(SOURCES)],
            "the lengths of sources and targets hardly correlate (",
        ),
    ],
)
def test_pairs_that_ruin_a_model_are_warned_of_each_time(config, caplog, pairs, warning):
    for _ in range(2):  # the second time from the cache
        caplog.clear()
        encode(pairs, config)

        assert warning in caplog.text


@pytest.mark.parametrize(
    "pairs",
    [
        [("a" * 9 + "x", "b" * 9 + "y")],
        [*DISTINCT, *[("a" * 20, "a" * 20)] * 20],
        [("a", "a")] * 200,
        [(each, each + "b" * (1 + row % 5)) for row, each in enumerate(SOURCES)],
        [(each[:3], each) for each in SOURCES],  # sources of equal lengths
        [(each, each + "b" * (1 + row % 5)) for row, each in enumerate(sorted(SOURCES, key=len))],
    ],
)
def test_sound_pairs_are_not_warned_of(config, caplog, pairs):
    encode(pairs, config)

    assert caplog.messages == []


def test_a_model_that_learns_to_copy_may_have_equal_sides(config, caplog):
    encode([("a" * 20, "a" * 20)] * 30, replace(config, target=config.source))

    assert caplog.messages == []


@pytest.mark.parametrize(("num_shared", "is_warned"), [(0, False), (1, False), (2, True)])
def test_pairs_to_score_with_a_side_in_the_training_text_are_counted(
    config, caplog, num_shared, is_warned
):
    """A pair that was too long for training is not in it."""
    train = encode([*DISTINCT, ("a" * 60, "b")], config)
    valid = replace(config, max_length=100)
    shared_sides = [("0", "b0"), ("a1", " 1.")]
    own = [("a" * 60, "b"), *[(f"a{row}", f"b{row}") for row in range(200)]]
    encoded = encode([*shared_sides[:num_shared], *own][:100], valid)

    warn_of_shared("valid", encoded, train)

    expected = (
        "valid: 2 of 100 pairs have a source (1) or a target (1) that is also in the training "
        "text; scores on them say nothing about new text"
    )
    assert caplog.messages == [
        "train: skipped 1 of 501 pairs with a side longer than data.max_length=50 tokens; the "
        "first is line 501 of train",
        *[expected] * is_warned,
    ]


def test_near_duplicates_and_only_they_have_the_same_hash():
    same = ["Ja, Tom!", "ja tom", " JA \u2013 Tom."]
    assert hash_text("3\u20135 %") == hash_text("3-5%") != hash_text("35%")
    assert len({hash_text(text) for text in ("Open", "^Open", "O~pen", "Op`en", "O&pen")}) == 1
    others = ["1,50", "150", "-5", "5", "5%", "~5", "2^3", "23", "ja tim"]
    others += ["\u0915\u093e", "\u0915\u0940", "!", "?", "a\udcff"]

    assert len({hash_text(text) for text in same}) == 1
    assert len({hash_text(text) for text in [same[0], *others]}) == 1 + len(others)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a &lt;b&gt;b&lt;/b&gt; c<br/>d", "a b c d"),
        ("&quot;AT&T&quot; &#228; &#xe4;", '"AT&T" \u00e4 \u00e4'),
        ("/?a=1&copy=2&lt=3", "/?a=1&copy=2&lt=3"),
        ("<num> <anna@firma.de> <https://a.de> a<b i<3 x > y", None),
        ("<a href='x' id=a>Ja</a>\u00a0 <SPAN>nein</SPAN>", "Ja nein"),
        ("&unknown; & &notest; a<b und c>d", None),
    ],
)
def test_markup_of_html_goes_and_nothing_else(text, expected):
    assert clean(text)[0] == (text if expected is None else expected)
    assert clean(text, keeps_markup=True)[0] == text.replace("\u00a0 ", " ")


GERMAN = "Der Hund schl\u00e4ft heute den ganzen Tag im Garten."
ENGLISH = "The dog is sleeping in the garden all day today."


@pytest.mark.parametrize(
    ("source", "target", "fault"),
    [
        (GERMAN, ENGLISH, None),
        ("", ENGLISH, "empty"),
        (101 * "a b c d e ", 101 * "a b c d e ", "long"),
        (GERMAN, 5 * ENGLISH, "ratio"),
        ("Ja.", "Yes, that is what I said.", None),  # short texts vary
        (GERMAN, GERMAN, "equal"),
        ("Kowalczyk & Co.", "Kowalczyk & Co.", None),
        (ENGLISH, GERMAN, "swapped"),
        (GERMAN, "Le chien dort dans le jardin toute la journ\u00e9e.", "language"),
        (12 * "\u0434\u0430 ", ENGLISH, "language"),
        ("Ich habe 2 Hunde und 30 Katzen.", "I have 3 dogs and 40 cats.", "numbers"),
        ("Das kostet 1.000,50 Euro.", "That costs 1,000.50 euros.", None),
        ("\u0661\u0662 \uff13\uff14", "12 34", None),
        ("Wir kommen um 14:30 Uhr.", "We will come at half past two.", None),
        ("Wir kommen um 17 Uhr.", "We will come at 5 p.m.", None),
        ("\uff15\u4e07\u5186", "50,000 yen", None),
        ("10\u5104\u4eba", "1 billion people", None),
        ("20 Tausend Euro", "20,000 euros", None),
        ("2,5 Mio. Menschen", "2,500,000 people", None),
        ("300\ub9cc \uba85", "3 million people", None),
        ("in den 80er Jahren", "in the 1980s", None),
        ("um 0 Uhr", "at 12 a.m.", None),
        ("10 \u0932\u093e\u0916", "1 million", None),
        ("1\u51042\u5343\u4e07\u4eba", "120 million people", None),
        ("\u5e73\u621030\u5e74", "the year 2018", None),
        ("\u0e1e.\u0e28. 2563", "the year 2020", None),
        ("50 %", "0.5", None),
        ("0,5", "50%", None),
        ("50 Hunde", "0.5 dogs", "numbers"),
        ("15 Hunde", "16 dogs", "numbers"),
        ("7 Hunde", "70 dogs", "numbers"),
        ("Nyika (Malawi und Sambia)", "Nyika (Malawi and Zambia)", None),
        ("VLC media player Hilfe", "VLC media player help", None),
        ("git branch [<options>] [--merged]", "git branch [<Optionen>] [--merged]", None),
        (
            "iPhone, iPad, MacBook Pro, Apple Watch und Apple TV",
            "iPhone, iPad, MacBook Pro, Apple Watch und Apple TV",
            "equal",
        ),
        (
            "usage: foo [-a] [-b DATEI] [--long-option=WERT] [DATEI]...",
            "usage: foo [-a] [-b FILE] [--long-option=VALUE] [FILE]...",
            None,
        ),
        ("Source", "de", "header"),
    ],
)
def test_the_fault_of_a_pair_is_named(source, target, fault):
    rules = PairRules("de", "en").fit([(GERMAN, ENGLISH)] * 3)

    assert rules.fault(source, target, is_first=True) == fault


def test_a_fault_can_be_ignored_and_lengths_and_scripts_follow_the_typical_pair():
    pairs = [("abc", 5 * "abc def ")] * 9
    rules = PairRules(ignored=frozenset({"equal"})).fit(pairs)

    assert {rules.fault(*pair) for pair in [*pairs, (20 * "a b ", 100 * "a b ")]} == {None}
    assert rules.fault(4 * "a b c d ", 4 * "a b c d ") == "ratio"
    assert rules.fault(8 * "\u0434\u0430 ", 20 * "abc def ") == "language"  # by its script alone


def test_a_long_text_in_another_language_is_doubted():
    pair = (19 * ENGLISH, 19 * GERMAN)

    assert PairRules("ru", "ja").fit([pair]).ignored  # its probability is 0


def test_sides_in_another_language_than_named_are_said_once(caplog):
    rules = PairRules("en", "de").fit([(GERMAN, ENGLISH)] * 3)

    assert "most texts of the source look like de, not en, so languages are not" in caplog.text
    assert rules.fault(GERMAN, ENGLISH) is None
