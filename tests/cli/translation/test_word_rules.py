import json

import pytest
from tiny_translator import GREEDY, SENTENCES, make_translate_config

from seq2seq.cli.translation.config import LongLines, OutputFormat, UnknownTokens
from seq2seq.cli.translation.task import translate
from seq2seq.data.tokenizers.interface import UNKNOWN_SURFACE
from seq2seq.inference.unknown_words import UnknownWords


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write_file


@pytest.fixture
def run(checkpoint, write, capfdbinary):
    def translate_lines(text, **changes):
        path = write("input.txt", text)
        translate(make_translate_config(checkpoint, input=path, decoding=GREEDY, **changes))
        return capfdbinary.readouterr().out.decode().splitlines()

    return translate_lines


def test_translations_begin_with_the_lines_of_prefixes(run, write):
    prefixes = write("prefixes", "ab\n\nc d\r\n")

    free = run("ja\nnein\nein hund\n")
    lines = run("ja\nnein\nein hund\n", prefixes=prefixes)

    assert lines[0].startswith("ab")
    assert lines[1] == free[1]
    assert lines[2].startswith("c d")


def test_prefixes_of_another_length_are_refused(run, write):
    with pytest.raises(ValueError, match=r"prefixes=.* ends before line 2, which input=.* has;"):
        run("ja\nnein\n", prefixes=write("prefixes", "ab\n"))


@pytest.mark.parametrize("changes", [{}, {"long_lines": LongLines.split}])
def test_banned_phrases_are_not_written(run, write, changes):
    text = "".join(f"{sentence}\n" for sentence in SENTENCES)
    phrase = max(run(text, **changes), key=len).split()[0][:2]

    lines = run(text, banned_phrases=write("banned", f"{phrase}\n"), **changes)

    assert len(lines) == len(SENTENCES)
    assert not any(phrase in line for line in lines)


def test_unknown_tokens_are_kept_copied_or_translated(run, write):
    prefixes, dictionary = write("prefixes", "xyz\n"), write("dictionary", "ja\tyes\n")

    [kept] = run("ja\n", prefixes=prefixes)
    [copied] = run("ja\n", prefixes=prefixes, unknown_words=UnknownTokens.copy)
    [translated] = run(
        "ja\n", prefixes=prefixes, unknown_words=UnknownTokens.copy, dictionary=dictionary
    )

    assert kept.startswith(UNKNOWN_SURFACE * 3)
    assert copied == kept.replace(UNKNOWN_SURFACE, "ja")
    assert translated == kept.replace(UNKNOWN_SURFACE, "yes")


def test_the_sentences_of_a_split_line_are_replaced_one_by_one(run, monkeypatch):
    monkeypatch.setattr(
        UnknownWords,
        "replace",
        lambda self, each: each._replace(hypotheses=[each.best._replace(text="X")]),
    )
    options = {"unknown_words": UnknownTokens.copy, "long_lines": LongLines.split}

    [line] = run("Ja ja. Nein  nein.\n", split_length=5, **options)

    assert line == "X X"


def test_a_bad_dictionary_is_refused_by_file_and_line(run, write):
    dictionary = write("dictionary", "ja\tyes\nnein no\n")

    with pytest.raises(ValueError, match=r"dictionary=.*/dictionary:2: 'nein no' is not an entry"):
        run("ja\n", unknown_words=UnknownTokens.copy, dictionary=dictionary)


def test_a_prefix_that_is_too_long_is_refused_by_file_and_line(checkpoint, write):
    names = ("a", "b")
    files = {
        "input": [write(f"{name}.de", "ja\nja\n") for name in names],
        "prefixes": [write("a.en", "a\n\n"), write("b.en", f"a\n{'a' * 7}\n")],
        "output": [write(f"{name}.out", "") for name in names],
    }

    with pytest.raises(ValueError, match=r"^prefixes=\S+b\.en:2 has 7 tokens, but the transl"):
        translate(make_translate_config(checkpoint, **files))


def test_an_empty_phrase_is_refused_by_file_and_line(run, write):
    with pytest.raises(ValueError, match=r"^banned_phrases=\S+banned:2: the line is empty"):
        run("ja\n", banned_phrases=write("banned", "ab\n\ncd\n"))


def test_json_has_the_probability_of_each_token(run):
    [line, _] = run("ein hund\n\n", output_format=OutputFormat.json)

    [hypothesis] = json.loads(line)["hypotheses"]
    by_token = hypothesis["token_log_probabilities"]
    assert len(by_token) == len(hypothesis["tokens"])
    assert sum(by_token) == pytest.approx(hypothesis["log_probability"], abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dictionary": "d"}, "dictionary=d needs unknown_words=copy"),
        (
            {"reference": "r", "prefixes": "p"},
            "prefixes=p constrains a search, but",
        ),
        ({"reference": "r", "banned_phrases": "f"}, "banned_phrases=f constrains a search, but"),
        (
            {"reference": "r", "unknown_words": UnknownTokens.copy},
            "unknown_words=copy changes translations, but reference=",
        ),
        (
            {"prefixes": "p", "long_lines": LongLines.split},
            "prefixes=p needs long_lines=whole",
        ),
        ({"input": ["a", "b"], "prefixes": "p"}, "prefixes=p names 1 files; give 2"),
        ({"prefixes": "p", "output": "p"}, "output=p would overwrite the file of prefixes=p"),
        (
            {"banned_phrases": "p", "output": "p"},
            "output=p would overwrite the file of banned",
        ),
    ],
)
def test_rules_that_make_no_sense_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        make_translate_config("run", **changes)
