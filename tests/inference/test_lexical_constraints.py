import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import list_corpus, unigram_config
from tiny_translator import BEAM, GREEDY, SENTENCES, make_translator

from seq2seq.data.tokenizers.interface import TokenizerPair, train_tokenizers
from seq2seq.inference.lexical_constraints import BannedPhrases
from seq2seq.special_tokens import UNK

TEXT = "ein hund rennt der schnee ist tief a dog runs through the snow ."
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.fixture(scope="module")
def sub_words():
    """Return a translator of SentencePiece's tokens, of random weights."""
    config = unigram_config(vocabulary_size=48, name="bpe", joint=True)
    tokenizer = train_tokenizers(config, list_corpus([(TEXT, TEXT)] * 9)).target
    return make_translator(seed=1, tokenizers=TokenizerPair(tokenizer, tokenizer))


@settings(max_examples=25)
@given(
    prefixes=st.lists(
        st.lists(st.sampled_from([*WORDS, "  ", "gun"]), max_size=4), min_size=1, max_size=5
    )
)
def test_a_translation_of_sub_words_begins_with_its_prefix(sub_words, prefixes):
    texts = [" ".join(prefix).strip() for prefix in prefixes]
    longer = dataclasses.replace(BEAM, max_length_offset=40)

    translations = sub_words.translate(["der schnee"] * len(texts), longer, prefixes=texts)

    for text, translation in zip(texts, translations, strict=True):
        assert all(found.text.startswith(text) for found in translation.hypotheses)


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_each_line_keeps_its_own_prefix_and_an_empty_one_leaves_it_free(translator, decoding):
    prefixes = ["ab", "", " ", "c d.", "", "hh", "", "\t"]

    found = list(translator.translate(SENTENCES, decoding, batch_size=3, prefixes=prefixes))

    free = translator.translate(SENTENCES, decoding)
    assert [each.source for each in found] == SENTENCES
    for prefix, one, other in zip(prefixes, found, free, strict=True):
        assert one.text.startswith(prefix.strip())
        if not prefix.strip():
            assert one.text == other.text


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_all_sentences_of_a_prefix_but_the_last_are_whole(translator, decoding):
    longer = dataclasses.replace(decoding, min_length=20, max_length_offset=40)
    lines, prefixes = ["Ja. Nein. Ja."], ["ab. cd. h"]

    [found] = translator.translate(lines, longer, prefixes=prefixes, split="always")

    assert found.text.startswith("ab. cd. h")
    assert len(found.best.parts[2].ids) >= 20


def test_a_prefix_with_unknown_tokens_is_counted(translator, caplog):
    [first, _, _] = translator.translate(["ja"] * 3, GREEDY, prefixes=["axb", "a", "z"])

    assert first.best.ids[1] == UNK
    assert "becomes unknown tokens: 2 of 3 (lines 1, 3);" in caplog.text


def test_a_prefix_of_a_line_without_text_is_counted(translator, caplog):
    translations = list(translator.translate([" ", "", "ja"], GREEDY, prefixes=["ab", "", ""]))

    assert [each.text for each in translations[:2]] == ["", ""]
    assert (
        "prefixes of lines without text, whose translations are empty: 1 of 3 (line 1)"
        in caplog.text
    )


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_no_translation_contains_the_tokens_of_a_banned_phrase(sub_words, decoding):
    tokenizer = sub_words.tokenizers.target
    free = sub_words(WORDS, decoding)
    phrases = sorted({tokenizer.decode(each.best.ids[:3]).strip() for each in free} - {""})
    id_rows = tokenizer.encode(phrases)
    assert any(contains(each, ids) for each in free for ids in id_rows)

    bound = list(sub_words.translate(WORDS, decoding, banned_phrases=phrases))

    assert not any(contains(each, ids) for each in bound for ids in id_rows)


def contains(translation, ids):
    """Return whether a hypothesis contains these tokens one after another."""
    return any(
        found.ids[start : start + len(ids)] == ids
        for found in translation.hypotheses
        for start in range(len(found.ids))
    )


def test_a_banned_phrase_in_a_prefix_is_counted(translator, caplog):
    prefixes = ["ab", "cab", "c"]

    translations = translator.translate(
        ["ja"] * 3, GREEDY, prefixes=prefixes, banned_phrases=["ab"]
    )
    texts = [each.text for each in translations]

    assert texts[0].startswith("ab")
    num_violations = sum("ab" in text.split() for text in texts)
    assert f"required prefix: {num_violations} of 3 (line" in caplog.text


def test_phrases_with_unknown_tokens_ban_nothing_and_are_counted(translator, caplog):
    banned = BannedPhrases(["xyz", "ab", "az"], translator.tokenizers.target)

    assert banned.id_rows == translator.tokenizers.target.encode(["ab"])
    assert "which it cannot write anyway: 2 of 3 (lines 1, 3)" in caplog.text


def test_an_empty_phrase_is_refused_by_its_number(translator):
    with pytest.raises(
        ValueError, match="banned_phrases: phrase 2 is empty, and every translation"
    ):
        BannedPhrases(["ab", " "], translator.tokenizers.target)
