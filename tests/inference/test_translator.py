import dataclasses
from itertools import count, islice

import pytest
import torch
from tiny_translator import (
    BEAM,
    GREEDY,
    SENTENCES,
    make_checkpoint,
    make_translator,
    translated,
    write_checkpoint,
)

from seq2seq.cli.translate_config import load_translate_config
from seq2seq.inference.lines import BATCHES_PER_WINDOW
from seq2seq.inference.translator import Translator
from seq2seq.model.seq2seq import count_parameters
from seq2seq.search.registry import search


@pytest.fixture(scope="module")
def translator():
    return make_translator()


def texts(translations):
    return [[found.text for found in translation.hypotheses] for translation in translations]


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_each_line_gets_what_search_finds_for_it_alone(decoding):
    checkpoint = make_checkpoint()
    model, (source, target) = checkpoint.build_model(), checkpoint.tokenizers
    translator = make_translator()

    for translation in translator.translate(["ein hund", "nein"], decoding, batch_size=2):
        ids = torch.tensor([[*source.encode([translation.source])[0], 3]])
        [expected] = search(model, ids, torch.ones_like(ids, dtype=torch.bool), decoding)

        assert len(translation.hypotheses) == len(expected)
        for found, hypothesis in zip(translation.hypotheses, expected, strict=True):
            assert found.text == target.decode(hypothesis.ids)
            assert found.score == pytest.approx(hypothesis.score, abs=1e-5)
            torch.testing.assert_close(found.attention_weights, hypothesis.attention_weights)


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_batch_size_and_neighbours_change_nothing(translator, decoding):
    alone = texts(translator.translate(SENTENCES, decoding, batch_size=1))
    together = texts(translator.translate(SENTENCES, decoding, batch_size=7))
    backwards = texts(translator.translate(SENTENCES[::-1], decoding, batch_size=3))

    assert alone == together == backwards[::-1]


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_line_without_text_gets_an_empty_translation_without_the_model(attention, monkeypatch):
    translator = make_translator(attention)
    monkeypatch.setattr(translator._model, "encode", None)

    for translation in translator.translate(["", " \t\u3000"], BEAM, batch_size=2):
        [found] = translation.hypotheses

        assert (found.text, found.score, found.finished) == ("", 0.0, True)
        assert found.attention_weights.shape == (translator.num_heads, 1, 1)
        assert translation.source_tokens == found.tokens == ["</s>"]


def test_links_join_words_of_both_sides(translator):
    translations = list(translator.translate(SENTENCES, BEAM, batch_size=3))

    all_links = [translator.links(each) for each in translations]

    assert any(all_links)
    for translation, links in zip(translations, all_links, strict=True):
        source, target = translation.source.split(), translation.hypotheses[0].text.split()
        assert all(i < len(source) and j < len(target) for i, j in links)


def test_a_figure_shows_the_chosen_hypothesis_also_of_an_exported_model(translator):
    [translation] = translator.translate(SENTENCES[:1], BEAM)
    best, second, *_ = translation.hypotheses
    exported = second._replace(attention_weights=second.attention_weights.numpy())

    labels = [
        [label.get_text() for label in translation.figure(chosen).axes[0].get_yticklabels()]
        for chosen in (None, second, exported)
    ]

    assert labels == [best.tokens, second.tokens, second.tokens]


def test_links_without_attention_are_an_error():
    translator = make_translator("none")
    translations = translator.translate(SENTENCES, GREEDY, batch_size=8)

    with pytest.raises(ValueError, match="without heads"):
        for translation in translations:
            translator.links(translation, translation.hypotheses[0])


class CountedLine(str):
    """A line that counts how many lines exist."""

    num_alive = 0
    __slots__ = ()

    def __new__(cls, text):
        cls.num_alive += 1
        return super().__new__(cls, text)

    def __del__(self):
        CountedLine.num_alive -= 1


def echo(batch, **arguments):
    """Replace the search: each line is its own translation."""
    return [translated(str(pair.source.text), str(pair.source.text)) for pair in batch]


def test_only_two_windows_of_an_endless_stream_are_held(monkeypatch):
    translator = make_translator()
    monkeypatch.setattr(translator, "search_batch", echo)
    window = 3 * BATCHES_PER_WINDOW
    most = 0

    def endless():
        nonlocal most
        for number in count():
            yield CountedLine(number)
            most = max(most, CountedLine.num_alive)

    translations = translator.translate(endless(), batch_size=3)
    for number, translation in enumerate(islice(translations, 5 * window)):
        assert translation.text == str(number)

    # The stream itself holds one more line.
    assert window <= most <= 2 * window + 1


def test_without_options_a_translator_searches_as_translate_does():
    checkpoint, expected = make_checkpoint(), make_translator()

    plain = Translator(checkpoint.build_model(), tokenizers=checkpoint.tokenizers)

    assert texts(plain(SENTENCES)) == texts(
        expected(SENTENCES, load_translate_config("checkpoint=a").decoding)
    )


def test_repr_is_one_line_with_the_size_and_the_device():
    translator = make_translator()
    num_parameters = count_parameters(make_checkpoint().build_model())

    assert repr(translator) == (
        f"Translator({num_parameters:,} parameters, 31 source and 14 target tokens, cpu, fp32, "
        f"decoding={translator.decoding.name})"
    )


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
    with pytest.raises(TypeError, match=r"use translate\(\[line\]\)"):
        next(translator.translate("ja"))


def test_the_name_of_a_search_is_not_taken_for_its_configuration(translator):
    with pytest.raises(TypeError, match=r"decoding='beam' must be a configuration, such as Beam"):
        translator(["ja"], "beam")


@pytest.mark.parametrize("batch_size", [0, -1])
def test_an_impossible_batch_size_is_refused(translator, batch_size):
    with pytest.raises(ValueError, match=f"batch_size={batch_size} must be at least 1"):
        translator(["ja"], batch_size=batch_size)


def test_device_and_precision_may_be_named(tmp_path):
    path = write_checkpoint(tmp_path / "run")
    with pytest.raises(ValueError, match="'gpu' is not a valid Device"):
        Translator.load(path, device="gpu")
    with pytest.raises(ValueError, match="'fp8' is not a valid Precision"):
        Translator.load(path, device="cpu", precision="fp8")
