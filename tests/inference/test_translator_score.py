import logging
import math

import pytest
import torch
from tiny_translator import BEAM, SENTENCES, make_translator

from seq2seq.special_tokens import UNK


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.mark.parametrize("attention", ["additive", "multihead", "none"])
def test_a_scored_translation_has_the_probability_and_weights_of_the_found_one(attention):
    translator = make_translator(attention)
    found = [
        (translation, hypothesis)
        for translation in translator.translate(SENTENCES, BEAM, batch_size=3)
        for hypothesis in translation.hypotheses
        # Without EOS, or of whitespace only, a text is encoded differently.
        if hypothesis.finished and hypothesis.text.strip()
    ]
    assert len(found) > 1
    pairs = [(translation.source, hypothesis.text) for translation, hypothesis in found]

    all_scored = list(translator.score(pairs, batch_size=2))

    for (translation, expected), scored in zip(found, all_scored, strict=True):
        [hypothesis] = scored.hypotheses
        assert scored[:3] == translation[:3]
        assert hypothesis.score == hypothesis.log_probability
        assert (hypothesis.text, hypothesis.ids) == (expected.text, expected.ids)
        assert (hypothesis.tokens, hypothesis.finished) == (expected.tokens, True)
        assert hypothesis.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
        by_token = hypothesis.token_log_probabilities
        assert by_token == pytest.approx(expected.token_log_probabilities, abs=1e-4)
        assert sum(by_token) == pytest.approx(expected.log_probability, abs=1e-4)
        torch.testing.assert_close(
            hypothesis.attention_weights, expected.attention_weights, rtol=0, atol=1e-5
        )


PAIRS = list(zip(SENTENCES, ["abc", "a.", "", "hgfe dcb", "ab", "", "c" * 40, "e"], strict=True))


def test_batch_size_and_neighbours_change_neither_order_nor_labels(translator):
    alone = list(translator.score(PAIRS, batch_size=1))
    together = list(translator.score(PAIRS, batch_size=7))
    backwards = list(translator.score(PAIRS[::-1], batch_size=3))[::-1]

    assert [(each.source, each.hypotheses[0].text) for each in alone] == PAIRS
    for one, *others in zip(alone, together, backwards, strict=True):
        [expected] = one.hypotheses
        for other in others:
            [found] = other.hypotheses
            assert (other[:3], found.ids, found.tokens) == (one[:3], expected.ids, expected.tokens)
            assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
            torch.testing.assert_close(found.attention_weights, expected.attention_weights)


def test_a_pair_without_text_on_one_side_has_no_links_and_is_counted(translator, caplog):
    pairs = [("ja", " "), ("\t", "abc"), ("ja", "abc"), ("nein", "a")]

    with caplog.at_level(logging.WARNING):
        without_target, without_source, whole, _ = translator.score(pairs, batch_size=2)

    assert translator.links(without_target, without_target.hypotheses[0]) == frozenset()
    assert translator.links(without_source, without_source.hypotheses[0]) == frozenset()
    assert translator.links(whole, whole.hypotheses[0])
    assert without_target.hypotheses[0].attention_weights.shape == (1, 1, 3)
    assert without_source.hypotheses[0].attention_weights.shape == (1, 4, 1)
    assert without_source.hypotheses[0].log_probability < 0
    [record] = caplog.records
    assert record.getMessage().startswith("pairs with text on one side only: 2 of 4 (lines 1, 2)")


def test_target_tokens_outside_the_vocabulary_are_scored_as_unknown_and_counted(translator, caplog):
    with caplog.at_level(logging.WARNING):
        outside, known = translator.score([("ja", "a\u65e5b"), ("ja", "ab")], batch_size=2)

    assert math.isfinite(outside.score)
    assert outside.hypotheses[0].ids.count(UNK) == 1
    assert UNK not in known.hypotheses[0].ids
    [record] = caplog.records
    assert record.getMessage() == (
        "target tokens that are unknown to the model, and are scored as <unk>: 1 of 5 (line 1)"
    )


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_pair_without_text_has_probability_1_without_the_model(attention, monkeypatch, caplog):
    translator = make_translator(attention)
    monkeypatch.setattr(translator._model, "encode", None)

    for translation in translator.score([("", ""), (" ", "\t")], batch_size=2):
        [found] = translation.hypotheses

        assert (found.log_probability, found.finished, found.ids) == (0.0, True, [])
        assert found.attention_weights.shape == (translator.num_heads, 1, 1)
        assert translation.source_tokens == found.tokens == ["</s>"]
    assert caplog.records == []


def test_probabilities_that_are_not_numbers_are_an_error():
    translator = make_translator()
    translator._model.decoder.output.bias.data[5] = torch.nan

    with pytest.raises(FloatingPointError, match=r"NaN.*precision=fp32"):
        list(translator.score([("ja", "abc")]))
