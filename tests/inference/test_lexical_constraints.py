"""Translations begin as they are told, and hold no forbidden phrase, or a warning says so."""

import dataclasses
import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_translator import BEAM, GREEDY, SENTENCES, make_config, make_translator

from seq2seq.checkpoints.checkpoint import build_model
from seq2seq.data import Pair, SentencePieceConfig, TokenizerPair, train_tokenizers
from seq2seq.data.tokenizers.base import SentencePieceModel
from seq2seq.inference.lexical_constraints import Forbidden
from seq2seq.inference.translator import Translator
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.special_tokens import UNK

TEXT = "ein hund rennt der schnee ist tief a dog runs through the snow ."
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.fixture(scope="module")
def tokenizer():
    class Corpus:
        name = fingerprint = "tiny"

        def __iter__(self):
            return (Pair(TEXT, TEXT, None) for _ in range(9))

    config = SentencePieceConfig(
        name="sentencepiece",
        vocabulary_size=48,
        model_type=SentencePieceModel.bpe,
        joint=True,
        character_coverage=1.0,
        max_training_lines=10,
    )
    return train_tokenizers(config, Corpus()).target


@pytest.fixture(scope="module")
def sub_words(tokenizer):
    """Return a translator of SentencePiece's tokens, of random weights."""
    config, tokenizers = make_config(), TokenizerPair(tokenizer, tokenizer)
    torch.manual_seed(1)
    model = build_model(config, tokenizers)
    for parameter in model.parameters():
        parameter.data.mul_(4)
    numerics = Numerics(torch.device("cpu"), Precision.fp32)
    return Translator(model, tokenizers=tokenizers, numerics=numerics, decoding=config.decoding)


@settings(max_examples=25, deadline=None)
@given(
    prefixes=st.lists(
        st.lists(st.sampled_from([*WORDS, "  ", "gun"]), max_size=4), min_size=1, max_size=5
    )
)
def test_a_translation_of_sub_words_begins_with_its_prefix(sub_words, prefixes):
    texts = [" ".join(prefix).strip() for prefix in prefixes]
    longer = dataclasses.replace(BEAM, max_length_offset=40)

    translations = sub_words.complete([("der schnee", text) for text in texts], longer)

    for text, translation in zip(texts, translations, strict=True):
        assert all(found.text.startswith(text) for found in translation.hypotheses)


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_each_line_keeps_its_own_prefix_and_an_empty_one_leaves_it_free(translator, decoding):
    prefixes = ["ab", "", " ", "c d.", "", "hh", "", "\t"]

    pairs = list(zip(SENTENCES, prefixes, strict=True))
    completed = list(translator.complete(pairs, decoding, batch_size=3))

    free = translator.translate(SENTENCES, decoding)
    assert [each.source for each in completed] == SENTENCES
    for prefix, one, other in zip(prefixes, completed, free, strict=True):
        assert one.text.startswith(prefix.strip())
        if not prefix.strip():
            assert one.text == other.text


def test_a_prefix_that_the_vocabulary_lacks_is_counted(translator, caplog):
    with caplog.at_level(logging.WARNING):
        [first, _, _] = translator.complete([("ja", "axb"), ("ja", "a"), ("ja", "z")], GREEDY)

    assert first.best.ids[1] == UNK
    assert "2 of 3 prefixes hold what the model's vocabulary lacks" in caplog.text


def test_a_prefix_of_a_line_without_text_is_counted(translator, caplog):
    with caplog.at_level(logging.WARNING):
        translations = list(translator.complete([(" ", "ab"), ("", ""), ("ja", "")], GREEDY))

    assert [each.text for each in translations[:2]] == ["", ""]
    assert "1 of 3 prefixes belong to lines without text" in caplog.text


def test_a_prefix_beyond_the_length_limit_is_refused_by_its_number(translator):
    pairs = [("ja", "a"), ("ja", "a" * 6), ("ja", "a" * 7)]

    with pytest.raises(ValueError, match="prefix 3 has 7 tokens, but the translation at most 6"):
        list(translator.complete(pairs, GREEDY, batch_size=1))


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_no_translation_holds_the_tokens_of_a_forbidden_phrase(sub_words, decoding):
    tokenizer = sub_words.tokenizers.target
    free = sub_words(WORDS, decoding)
    phrases = sorted({tokenizer.decode(each.best.ids[:3]).strip() for each in free} - {""})
    id_rows = tokenizer.encode(phrases)
    assert any(holds(each, ids) for each in free for ids in id_rows)

    bound = list(sub_words.translate(WORDS, decoding, forbidden=phrases))

    assert not any(holds(each, ids) for each in bound for ids in id_rows)


def holds(translation, ids):
    """Say whether a hypothesis has these tokens one after another."""
    return any(
        found.ids[start : start + len(ids)] == ids
        for found in translation.hypotheses
        for start in range(len(found.ids))
    )


def test_a_phrase_that_is_forced_all_the_same_is_counted(translator, caplog):
    pairs = [("ja", "ab"), ("ja", "cab"), ("ja", "c")]

    with caplog.at_level(logging.WARNING):
        completed = [each.text for each in translator.complete(pairs, GREEDY, forbidden=["ab"])]

    assert completed[0].startswith("ab")
    num_holding = sum("ab" in text.split() for text in completed)
    assert f"{num_holding} of 3 translations hold a forbidden phrase" in caplog.text


def test_phrases_that_cannot_be_written_forbid_nothing_and_are_counted(translator, caplog):
    with caplog.at_level(logging.WARNING):
        forbidden = Forbidden(["xyz", "ab", "az"], translator.tokenizers.target)

    assert forbidden.id_rows == translator.tokenizers.target.encode(["ab"])
    assert "2 of 3 forbidden phrases hold what the model's vocabulary lacks" in caplog.text


def test_an_empty_phrase_is_refused_by_its_number(translator):
    with pytest.raises(ValueError, match="forbidden phrase 2 is empty, which every translation"):
        Forbidden(["ab", " "], translator.tokenizers.target)


def test_nothing_forbidden_warns_of_nothing(translator, caplog):
    list(translator.translate(["ja", "nein"], BEAM))

    assert "forbidden" not in caplog.text
