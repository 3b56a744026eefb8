import dataclasses

import pytest
from tiny_translator import BEAM, GREEDY, SENTENCES, write_checkpoint

from seq2seq.inference.translator import Translator


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.fixture(scope="module")
def translator(path):
    return Translator.load(path, device="cpu")


def test_a_list_becomes_the_list_that_translate_yields(translator):
    called = translator(SENTENCES, BEAM, batch_size=3)

    expected = list(translator.translate(SENTENCES, BEAM, batch_size=3))
    assert isinstance(called, list)
    assert [each.text for each in called] == [each.hypotheses[0].text for each in expected]
    assert [each.score for each in called] == [each.hypotheses[0].score for each in expected]


def test_a_translation_has_scores_attention_and_links(translator):
    [translation] = translator(["nein und ja"], BEAM)

    best = translation.best
    rows, columns = len(best.tokens), len(translation.source_tokens)
    assert best is translation.hypotheses[0]
    assert best.attention_weights.shape == (1, rows, columns)
    assert len(best.token_log_probabilities) == rows
    assert all(source < 3 for source, _ in translator.links(translation, best))


def test_the_search_of_the_checkpoint_is_used_and_can_be_changed(translator):
    shorter = dataclasses.replace(
        translator.decoding, max_length_ratio=0.0, max_length_offset=1, min_length=0
    )

    default, cut = translator(SENTENCES), translator(SENTENCES, shorter)

    expected = translator.translate(SENTENCES, translator.decoding)
    assert [each.text for each in default] == [each.text for each in expected]
    assert {len(each.best.tokens) for each in cut} == {1}
    assert max(len(each.best.tokens) for each in default) > 1


def test_an_iterator_is_translated_too(translator):
    once = iter(SENTENCES)

    assert len(translator(once, GREEDY)) == len(SENTENCES)


@pytest.mark.parametrize("sentences", ["Ein Hund.", "", [b"Ein Hund."], [None], [["Ein Hund."]]])
def test_anything_but_a_list_of_strings_is_refused(translator, sentences):
    with pytest.raises(TypeError, match=r"must be a list of strings; write translator\(\[sent"):
        translator(sentences)


def test_a_single_text_is_not_taken_for_lines_of_one_letter(translator):
    with pytest.raises(TypeError, match=r"write translate\(\[line\]\)"):
        translator.translate("ja")


@pytest.mark.parametrize("batch_size", [0, -1])
def test_an_impossible_batch_size_is_refused(translator, batch_size):
    with pytest.raises(ValueError, match=f"batch_size={batch_size} must be at least 1"):
        translator(["ja"], batch_size=batch_size)


def test_device_and_precision_may_be_named(path):
    with pytest.raises(ValueError, match="'gpu' is not a valid Device"):
        Translator.load(path, device="gpu")
    with pytest.raises(ValueError, match="'fp8' is not a valid Precision"):
        Translator.load(path, device="cpu", precision="fp8")
