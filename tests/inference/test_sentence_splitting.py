import re

import pytest
from tiny_translator import translated

from seq2seq.inference.sentence_splitting import SentenceSplitter, join_translations
from seq2seq.inference.windows import VERY_LONG


def make_splitter(split_length=3, **changes):
    """Return a splitter that counts words as tokens."""
    keys = {"num_tokens": lambda line: len(line.split())} | changes
    return SentenceSplitter(split_length=split_length, **keys)


def test_the_sentences_of_a_long_line_are_split_and_joined_again():
    line = "Zwei Hunde.  Eine Katze!"

    parts, was_too_long = make_splitter().split(line)
    joined = join_translations(line, [translated(part, part.upper()) for part in parts])

    assert (parts, was_too_long) == (["Zwei Hunde.", "Eine Katze!"], False)
    assert (joined.source, joined.text) == (line, "ZWEI HUNDE. EINE KATZE!")


@pytest.mark.parametrize("line", ["", "Was? Ja.", " ", "Eins zwei."])
def test_a_line_of_as_many_tokens_as_allowed_is_not_split(line):
    assert make_splitter(2).split(line) == ([line], False)


def test_a_sentence_that_is_too_long_itself_is_not_split():
    line = "Eins zwei drei vier. Ja."

    assert make_splitter().split(line) == (["Eins zwei drei vier.", "Ja."], False)


@pytest.mark.parametrize("start", ["<2b> ", " <2c> ", ""])
def test_every_sentence_of_a_long_line_has_the_symbols_of_its_start(start):
    splitter = make_splitter(leading_symbols=lambda line: re.match("( *<..> )?", line)[0])

    parts, _ = splitter.split(f"{start}Zwei Hunde. Ja ja.")

    assert parts == [f"{start.lstrip()}{part}" for part in ("Zwei Hunde.", "Ja ja.")]


@pytest.mark.parametrize("text", ["a" * 2500, "a b " * 625, "x" + " " * 2000 + "y" * 1500])
def test_a_sentence_of_very_many_tokens_is_cut_into_tagged_parts(text):
    splitter = make_splitter(
        VERY_LONG, num_tokens=len, leading_symbols=lambda line: line[: line.rfind(">") + 1]
    )
    longest = "<2b>" + "a" * (VERY_LONG - 4)

    parts, was_too_long = splitter.split(f"<2b>{text}")

    assert splitter.split(longest) == ([longest], False)
    assert was_too_long
    assert max(map(len, parts)) <= 100
    assert "".join(part.removeprefix("<2b>") for part in parts).replace(" ", "") == (
        text.replace(" ", "")
    )
    assert all(part.startswith("<2b>") for part in parts)


def test_short_lines_are_not_tokenized():
    splitter = make_splitter(100, num_tokens=lambda line: 1 // 0)

    assert splitter.split("Ja. Nein.") == (["Ja. Nein."], False)
