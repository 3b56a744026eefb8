"""Lessons in copying."""

import re

import pytest

from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizers.ruled import model_pair
from seq2seq.text.copying import with_lesson
from seq2seq.text.patterns import PATTERNS
from seq2seq.text.rules import IDENTITY, SYMBOLS, TextRules

RULES = TextRules(True, PATTERNS)
PAIRS = [
    *((f"Der Hund von Tom mag es {'sehr ' * n}gut.", "Tom's dog likes it.") for n in range(150)),
    *((f"Tom {'sehr ' * n}mag KR-7.", f"KR-7 is {'so ' * n}liked by Tom!") for n in range(150)),
]


def readable(text):
    return text.translate({ord(symbol): f"[{n}]" for n, symbol in enumerate(SYMBOLS)})


def lessons(pairs=PAIRS):
    """Return the pairs that get a lesson, before and after it."""
    masked = [(source.text, target) for source, target in (RULES.prepare_pair(*p) for p in pairs)]
    return [(pair, with_lesson(*pair)) for pair in masked if with_lesson(*pair) != pair]


def test_a_small_share_of_the_pairs_gets_a_lesson_with_the_same_symbols_on_both_sides():
    found = lessons()

    assert 0.05 < len(found) / len(PAIRS) < 0.15
    for (before, _), taught in found:
        symbols = [[each for each in text if each in SYMBOLS] for text in taught]
        number = len(symbols[0])
        assert symbols[0] == sorted(symbols[1]) == list(SYMBOLS[:number])
        assert number > sum(map(before.count, SYMBOLS))


def test_symbols_stand_at_the_sentence_or_at_a_word_of_both_sides():
    places = {re.sub("sehr ", "", readable(source)) for _, (source, _) in lessons()}

    assert {"[0] Tom mag [1].[2]", "[0] Tom mag [1]."} <= places
    assert any("Tom[1] " in source for source in places)
    assert any(source.startswith("[0] mag [1]") for source in places)


@pytest.mark.parametrize("links", [None, "some"])
def test_only_training_text_without_links_gets_lessons_and_only_where_spans_are_protected(links):
    taught = 0
    for pair in (Pair(*each, links=links) for each in PAIRS):
        source, target = RULES.prepare_pair(*pair[:2])
        assert model_pair(pair, IDENTITY) == pair
        scored = model_pair(pair, RULES, is_training=False)
        assert scored.source == RULES.prepare(pair.source).text
        taught += model_pair(pair, RULES)[:2] != (source.text, target)

    assert (taught > 0) == (links is None)


def test_tags_of_languages_stay_first():
    for source, target in PAIRS:
        found, _ = with_lesson(f"<2de> {source}", target, len("<2de> "))
        assert found.startswith("<2de> ")


def test_a_pair_whose_symbols_are_all_used_stays():
    full = " ".join(SYMBOLS)

    assert all(with_lesson(f"{s} {full}", full)[0] == f"{s} {full}" for s, _ in PAIRS)
