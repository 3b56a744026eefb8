import pytest

from seq2seq.serving.texts import split_text
from seq2seq.text.sentences import split_sentences


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ja.",
        "\n",
        "Ja.\n",
        "\n\nJa. Nein.\r\n\r\nJa.\r",
        " \t\n Ja.  Nein. \n",
        "Ja\x00.\x0bNein.",
    ],
)
def test_line_ends_and_paragraphs_are_kept(text):
    split = split_text(text, split_sentences)

    joined = split.join([f"<{number}>" for number in range(len(split.sentences))])

    ends = [each for each in text if each in "\r\n"]
    assert [each for each in joined if each in "\r\n"] == ends
    assert all(sentence.strip() for sentence in split.sentences)
    assert joined.count("<") == len(split.sentences)


def test_chinese_translations_are_joined_without_spaces():
    text = split_text("Ja. Nein.", split_sentences)

    assert text.join(["\u662f\u3002", "\u4e0d\u3002"]) == "\u662f\u3002\u4e0d\u3002"
