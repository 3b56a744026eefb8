import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_translator import translated

from seq2seq.inference.sentence_splitting import SentenceSplitter, split_sentences
from seq2seq.inference.windows import BATCHES_PER_WINDOW, VERY_LONG


def make_splitter(split_length=3):
    """Return a splitter that counts words as tokens."""
    return SentenceSplitter(1, split_length=split_length, num_tokens=lambda line: len(line.split()))


def window(*lines):
    return [(line, "") for line in lines]


def sentences(splitter, *lines):
    """Return the sentences of one window of lines."""
    return [line for part in splitter.split([window(*lines)]) for line, _ in part]


def translate(windows):
    """Yield a translation in capitals of each sentence."""
    for part in windows:
        for sentence, _ in part:
            yield translated(sentence, sentence.strip().upper())


def test_the_sentences_of_a_long_line_are_joined_again():
    lines = ["Zwei Hunde.  Eine Katze!", "", "Was? Ja.", " "]
    splitter = make_splitter()

    found = list(splitter.join(translate(splitter.split([window(*lines)]))))

    assert sentences(make_splitter(), *lines) == [
        *("Zwei Hunde.", "Eine Katze!"),
        *("", "Was? Ja.", " "),
    ]
    assert [(each.source, each.text) for each in found] == [
        (lines[0], "ZWEI HUNDE. EINE KATZE!"),
        ("", ""),
        (lines[2], "WAS? JA."),
        (" ", ""),
    ]


@pytest.mark.parametrize(("split_length", "num_sentences"), [(4, 1), (3, 2)])
def test_a_line_of_as_many_tokens_as_allowed_is_not_split(split_length, num_sentences):
    splitter = make_splitter(split_length)

    assert len(sentences(splitter, "Zwei Hunde. Eine Katze.")) == num_sentences


def test_a_sentence_that_is_too_long_itself_is_not_split():
    line = "Eins zwei drei vier. Ja."

    assert sentences(make_splitter(), line) == ["Eins zwei drei vier.", "Ja."]


def test_a_window_of_lines_is_split_before_the_next_one_is_read():
    lines = iter(["Zwei Hunde. So. Ja.", "g"])

    found = make_splitter().split(window(line) for line in lines)

    assert next(found) == window("Zwei Hunde.", "So.", "Ja.")
    assert next(lines) == "g"


def test_the_sentences_of_a_very_long_line_fill_several_windows():
    line = "Ja. Nein. " * BATCHES_PER_WINDOW

    found = list(make_splitter().split([window(line)]))

    assert list(map(len, found)) == [BATCHES_PER_WINDOW] * 2


def test_every_sentence_of_a_long_line_has_the_symbols_of_its_start():
    splitter = SentenceSplitter(
        1,
        split_length=3,
        num_tokens=lambda line: len(line.split()),
        leading_symbols=lambda line: line[: line.rfind(">") + 2],
    )
    lines = ["<2b> Zwei Hunde. Ja.", "<2b> Ja.", "Zwei Hunde. Drei.", " <2c> Zwei Hunde. Ja."]

    found = list(splitter.join(translate(splitter.split([window(*lines)]))))

    assert [each.text for each in found] == [
        "<2B> ZWEI HUNDE. <2B> JA.",
        "<2B> JA.",
        "ZWEI HUNDE. DREI.",
        "<2C> ZWEI HUNDE. <2C> JA.",
    ]
    assert [each.source for each in found] == lines


@pytest.mark.parametrize("text", ["a" * 2500, "a b " * 625, "x" + " " * 2000 + "y" * 1500])
def test_a_sentence_of_very_many_tokens_is_cut_into_tagged_parts(text, caplog):
    splitter = SentenceSplitter(
        1000,
        split_length=VERY_LONG,
        num_tokens=len,
        leading_symbols=lambda line: line[: line.rfind(">") + 1],
    )
    lines = ["<2b>" + "a" * (VERY_LONG - 4), f"<2b>{text}"]

    [whole, *parts] = sentences(splitter, *lines)
    found = list(splitter.join(map(translated, [whole, *parts], [whole, *parts])))

    assert whole == lines[0]
    assert max(map(len, parts)) <= 100
    assert "".join(part.removeprefix("<2b>") for part in parts).replace(" ", "") == (
        text.replace(" ", "")
    )
    assert all(part.startswith("<2b>") for part in parts)
    assert [each.source for each in found] == lines
    assert [each.partition(";")[0] for each in caplog.messages] == [
        "lines of more than 1,000 tokens that were split: 1, the first is line 2"
    ]


def test_short_lines_are_not_tokenized():
    splitter = SentenceSplitter(1, split_length=100, num_tokens=lambda line: 1 // 0)

    assert sentences(splitter, "Ja. Nein.") == ["Ja. Nein."]


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
def test_a_doubtful_end_is_not_split(text):
    assert split_sentences(text) == [text]


def test_ideographic_stops_need_no_space():
    assert split_sentences("\u4f60\u597d\u3002\u518d\u89c1\uff01\uff01\u597d") == [
        "\u4f60\u597d\u3002",
        "\u518d\u89c1\uff01\uff01",
        "\u597d",
    ]


@given(text=st.text(alphabet="aB. !3\u3002\"'\u2028", max_size=40))
def test_only_spaces_are_lost(text):
    sentences = split_sentences(text)

    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence.strip() for sentence in sentences) or len(sentences) == 1


@pytest.mark.parametrize("text", [".", " ", ". ", "\u3002", "a"])
def test_many_characters_take_no_time(text):
    assert split_sentences(text * 100_000)
