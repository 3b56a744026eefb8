import pytest
from tiny_translator import make_translator

from seq2seq.serving.markup import SplitHtml
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


def test_translations_come_to_the_place_of_their_sentence():
    split = split_text("Ja. Nein.\n\n Ja!\r\n", split_sentences)

    assert split.sentences == ["Ja.", "Nein.", " Ja!"]
    assert split.join(["Yes.", "No.", "Yes!"]) == "Yes. No.\n\nYes!\r\n"


@pytest.mark.parametrize("read", [split_text, SplitHtml])
def test_chinese_translations_are_joined_without_spaces(read):
    assert read("Ja. Nein.", split_sentences).join(["\u662f\u3002", "\u4e0d\u3002"]) == (
        "\u662f\u3002\u4e0d\u3002"
    )


def test_an_empty_translation_leaves_no_space():
    assert split_text("Ja. Nein. Ja.", split_sentences).join(["a", "", "b"]) == "a b"


def test_the_text_of_a_line_is_that_of_translating_with_split_lines():
    translator = make_translator()
    line = "ein hund rennt. Der schnee ist tief. Ja! nein und ja"
    [offline] = translator([line])

    split = split_text(line, split_sentences)

    translations = translator(split.sentences)
    assert split.join([each.text for each in translations]) == offline.text
