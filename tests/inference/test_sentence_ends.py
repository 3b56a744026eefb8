import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.inference.sentence_ends import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Ein Hund.", "Eine Katze!", "Was?", "Ja"],
        ["Im Jahr 2010.", "\xc4rger gab es nicht."],
        ['Er sagte: "Komm!"', "Dann ging er (nicht weit.)", "Ende"],
        ["Wait...", "What\u2026", "\u201eNein.\u201c", "So"],
    ],
)
@pytest.mark.parametrize("gap", [" ", "  ", "\t", "\u2028"])
def test_a_stop_and_a_space_end_a_sentence(sentences, gap):
    assert split_sentences(gap.join(sentences)) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ein hund",
        "Dr. Bach",
        "am 3. Mai",
        "J. S. Bach",
        "z. B. so",
        'Er rief: "Komm!" und ging',
        "v1.2.3",
        "Ende. ",
    ],
)
def test_what_may_be_no_end_is_none(text):
    assert split_sentences(text) == [text]


def test_ideographic_stops_need_no_space():
    assert split_sentences("\u4f60\u597d\u3002\u518d\u89c1\uff01\uff01\u597d") == [
        "\u4f60\u597d\u3002",
        "\u518d\u89c1\uff01\uff01",
        "\u597d",
    ]


@given(text=st.text(alphabet="aB. !3\u3002\"'\u2028", max_size=40))
def test_no_character_is_lost_but_spaces(text):
    sentences = split_sentences(text)

    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence.strip() for sentence in sentences) or len(sentences) == 1


@pytest.mark.parametrize("text", [".", " ", ". ", "\u3002", "a"])
def test_many_characters_take_no_time(text):
    assert split_sentences(text * 100_000)
