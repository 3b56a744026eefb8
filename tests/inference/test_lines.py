from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_translator import BEAM, TOKENIZERS, make_checkpoint, make_translator

from seq2seq.data.tokenizers.ruled import RuledTokenizer
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.checkpoint import save_checkpoint
from seq2seq.inference.lines import (
    BATCHES_PER_WINDOW,
    LONG_SENTENCE,
    Line,
    cut_batches,
    cut_windows,
    in_order,
)
from seq2seq.inference.translator import Translator
from seq2seq.text.layer import VERY_LONG
from seq2seq.text.rules import TextRules


@pytest.mark.parametrize(("share", "number"), [(0.1, 2), (0.9, 1)])
def test_a_checkpoint_decides_whether_its_translator_splits(share, number, tmp_path):
    path = tmp_path / "best.pt"
    save_checkpoint(path, replace(make_checkpoint(), habits={"several_sentences": share}))

    [found] = Translator.load(path, device="cpu")(["ein hund. Zwei."])

    assert len(found.sentences) == number


def test_the_translation_of_a_line_is_those_of_its_sentences():
    translator = make_translator()
    sentences = ["ein hund.", "Zwei.", "---", "Ja"]

    alone = translator(sentences, BEAM)
    [line] = translator([" ein hund.  Zwei. --- Ja"], BEAM)

    assert line.source == " ein hund.  Zwei. --- Ja"
    assert [each.source for each in line.sentences] == sentences
    assert line.text == " ".join(each.text for each in alone if each.text)
    assert "---" in line.text.split()
    for one, [other] in zip(line.sentences, (each.sentences for each in alone), strict=True):
        assert one[:3] == other[:3]
        assert [each.ids for each in one.hypotheses] == [each.ids for each in other.hypotheses]
        for ours, same in zip(one.hypotheses, other.hypotheses, strict=True):
            assert ours.attention_weights.allclose(same.attention_weights, atol=1e-6)
    assert line.score == pytest.approx(sum(each.score for each in alone))
    assert len(line.hypotheses) > 1


def test_the_links_of_a_line_are_those_of_its_sentences_counted_in_the_line():
    rules = TextRules(tags=("<2b>",))
    letters = CharacterTokenizer([*"abcdefghijklmnopqrstuvwxyz ", *rules.tag_symbols])
    tagged = TOKENIZERS._replace(source=RuledTokenizer(letters, rules))
    translator = make_translator(tokenizers=tagged)

    first, second = translator(["<2b> ein hund.", "<2b> Zwei katzen."])
    [joined] = translator(["<2b>  ein hund.  Zwei katzen."])

    offset = len(first.text.split())
    of_second = {
        (source if source == 0 else source + 2, target + offset)
        for source, target in translator.links(second)
    }
    assert translator.links(joined) == translator.links(first) | of_second
    assert translator.links(second)


def windows(number, has_more=lambda: True):
    lines = (Line(place, "Ja. Nein.", "", ["Ja.", "Nein."]) for place in range(number))
    return list(cut_windows(lines, 3, has_more))


def test_a_window_holds_the_sentences_of_many_batches_and_the_last_one_the_rest():
    full = 3 * BATCHES_PER_WINDOW // 2

    found = windows(2 * full + 1)

    assert [len(window) for window in found] == [full, full, 1]
    assert [line.place for window in found for line in window] == list(range(2 * full + 1))


def test_a_window_ends_where_the_next_line_has_not_arrived():
    answers = iter([True, False, True])

    found = windows(3, lambda: next(answers))

    assert [len(window) for window in found] == [2, 1]


@given(
    lengths=st.lists(st.one_of(st.just(0), st.integers(0, 3 * LONG_SENTENCE))),
    batch_size=st.integers(1, 5),
)
def test_every_row_is_in_a_batch_of_bounded_area_and_comes_back_in_order(lengths, batch_size):
    batches = cut_batches(lengths, batch_size)

    assert list(in_order(batches, batches)) == list(range(len(lengths)))
    assert [lengths[row] for batch in batches for row in batch] == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        area = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) == 1 or area <= batch_size * LONG_SENTENCE
        assert len({lengths[row] == 0 for row in batch}) == 1


def test_a_result_comes_before_the_batches_behind_it():
    results = in_order([[0, 1], [2, 3]], iter([["a", "b"]]))

    assert [next(results), next(results)] == ["a", "b"]


def test_a_row_without_a_result_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        list(in_order([[0, 1]], [["a"]]))


def test_a_warning_counts_very_long_rows(caplog):
    cut_batches([1, VERY_LONG, VERY_LONG + 1, 50 * VERY_LONG], batch_size=2)

    [message] = caplog.messages
    assert message.startswith("sentences of more than 1,000 tokens: 2, the longest has 50,000;")
    assert message.endswith("split=always splits them")
