import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.text.rules import normalize
from seq2seq.text.sentences import (
    TextHabits,
    goes_on_after_stop,
    has_words,
    join_sentences,
    split_marker,
    split_sentences,
)

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())


@pytest.mark.parametrize(("text", "sentences"), CASES["split"])
def test_a_text_is_split_where_its_sentences_end(text, sentences):
    assert split_sentences(normalize(text)) == sentences


@pytest.mark.parametrize("gap", [" ", "  ", "\t", "\u2028"])
def test_any_white_space_ends_a_sentence_after_a_stop(gap):
    sentences = ["Ein Hund.", "Eine Katze!", "Was?", "Ja"]

    assert split_sentences(gap.join(sentences)) == sentences


@pytest.mark.parametrize("text", ["", " ", "Ende. ", " ein hund"])
def test_a_single_sentence_stays_as_it_is(text):
    assert split_sentences(text) == [text]


@given(text=st.text(alphabet="aB. !3\u3002\"'\u2028\u300c\u300d-", max_size=40))
def test_only_spaces_are_lost(text):
    sentences = split_sentences(text)

    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence.strip() for sentence in sentences) or len(sentences) == 1


@pytest.mark.parametrize(
    "text",
    [".", " ", ". ", "\u3002", "a", "a.", "I. ", "\u300c", ") ", "a@", "\u0301\u0323", "\u0f73"],
)
def test_many_characters_take_no_time(text):
    normalize(text * 100_000)
    split_sentences(text * 100_000)
    has_words(text * 100_000)
    split_marker(text * 100_000)
    goes_on_after_stop(text * 100_000)


@pytest.mark.parametrize(("text", "expected"), CASES["has_words"])
def test_a_text_of_numbers_symbols_and_addresses_has_no_words(text, expected):
    assert has_words(text) is expected


@pytest.mark.parametrize(("text", "marker", "rest"), CASES["markers"])
def test_a_marker_is_split_from_its_sentence(text, marker, rest):
    assert split_marker(text) == (marker, rest)


@pytest.mark.parametrize(("texts", "joined"), CASES["join"])
def test_chinese_and_japanese_sentences_are_joined_without_spaces(texts, joined):
    assert join_sentences(texts) == joined


@pytest.mark.parametrize(("share", "has_sentences"), [(0.0, True), (0.4, True), (0.6, False)])
def test_a_text_of_single_sentences_may_have_some_lines_with_several(share, has_sentences):
    assert TextHabits(several_sentences=share).has_sentences is has_sentences


@pytest.mark.parametrize(("share", "keeps"), [(0.0, True), (0.002, True), (0.02, False)])
def test_text_without_words_stays_unless_some_of_it_is_translated(share, keeps):
    assert TextHabits(without_words=share).keeps_other_text is keeps
