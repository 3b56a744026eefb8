from itertools import count, islice

import pytest
from tiny_translator import translated

from seq2seq.inference.sentence_splitting import SentenceSplitter
from seq2seq.inference.streaming import windows


def always():
    return True


def make_splitter(lines, *, has_more=always, split_length=3):
    """Return a splitter to which a word is a token."""
    return SentenceSplitter(
        lines,
        has_more=has_more,
        num_tokens=lambda line: len(line.split()),
        split_length=split_length,
    )


def translate(sentences):
    """Return a translation in capitals of each sentence."""
    for sentence in sentences:
        yield translated(sentence, sentence.strip().upper())


def answers(lines, **changes):
    splitter = make_splitter(lines, **changes)
    return [(each.source, each.hypotheses[0].text) for each in splitter.join(translate(splitter))]


def test_a_long_line_is_translated_by_sentences_and_stays_one_line():
    lines = ["Zwei Hunde.  Eine Katze!", "", "Was? Ja.", " "]

    assert list(make_splitter(lines)) == ["Zwei Hunde.", "Eine Katze!", "", "Was? Ja.", " "]
    assert answers(lines) == [
        (lines[0], "ZWEI HUNDE. EINE KATZE!"),
        ("", ""),
        (lines[2], "WAS? JA."),
        (" ", ""),
    ]


@pytest.mark.parametrize(("split_length", "num_sentences"), [(4, 1), (3, 2)])
def test_a_line_of_as_many_tokens_as_allowed_is_whole(split_length, num_sentences):
    splitter = make_splitter(["Zwei Hunde. Eine Katze."], split_length=split_length)

    assert len(list(splitter)) == num_sentences


def test_a_sentence_that_is_too_long_itself_is_whole():
    line = "Eins zwei drei vier. Ja."

    assert list(make_splitter([line])) == ["Eins zwei drei vier.", "Ja."]


def test_the_sentences_of_a_line_wait_for_no_other_line():
    splitter = make_splitter(["Zwei Hunde. So. Ja.", "g"], has_more=lambda: False)

    found = list(windows(splitter, batch_size=2, has_more=splitter.has_more))

    assert found == [["Zwei Hunde.", "So.", "Ja."], ["g"]]


def test_an_endless_stream_of_long_lines_is_read_as_it_is_asked_for():
    numbers = count()
    splitter = make_splitter(f"Zwei {number}00. Und so weiter." for number in numbers)

    found = list(islice(splitter.join(translate(splitter)), 3))

    assert len(found) == 3
    assert next(numbers) == 3


def test_short_lines_are_not_counted_in_tokens():
    splitter = SentenceSplitter(
        ["Ja. Nein."], has_more=always, num_tokens=lambda line: 1 // 0, split_length=100
    )

    assert list(splitter) == ["Ja. Nein."]
