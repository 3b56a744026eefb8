"""Words and characters are chosen by frequency, split and joined by rules, and have vectors."""

import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import list_corpus, words_config

from seq2seq.data.config import CharactersConfig, Splitter, WordsConfig
from seq2seq.data.tokenizers.ruled import train_tokenizers
from seq2seq.data.tokenizers.words import (
    CharacterTokenizer,
    WordTokenizer,
    load_vectors,
    marking,
    split_function,
)
from seq2seq.files.paths import ReadingError
from seq2seq.special_tokens import UNK
from seq2seq.text.rules import SYMBOLS, restore

CONFIG = words_config(vocabulary_size=99)
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=99, min_frequency=1, protect=[])


def units(config: WordsConfig | CharactersConfig, *lines: str) -> list[str]:
    """Return the source vocabulary learnt from the lines, without special tokens."""
    tokenizer = train_tokenizers(config, list_corpus([(line, "x") for line in lines])).source
    return tokenizer.tokens(range(4, len(tokenizer)))


def vocabulary(*words: str, splitter: str = "moses", language: str = "en") -> WordTokenizer:
    return WordTokenizer(words, splitter=Splitter[splitter], language=language)


def knowing(line: str, *, splitter: str, language: str) -> WordTokenizer:
    """Return a tokenizer with the words of the line."""
    split = marking(split_function(Splitter[splitter], language=language))
    return vocabulary(*sorted(set(split(line))), splitter=splitter, language=language)


def vectors_file(folder: Path, *lines: str) -> str:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("config", "lines", "expected"),
    [
        (CONFIG, ("der Hund und der Ball", "ein Hund und der Ast"), "der Hund und Ast Ball ein"),
        (CHARACTERS, ("ccb", "bdaa", "d", "d"), "d a b c"),
        (replace(CONFIG, vocabulary_size=4 + 2), ("a a a b b c",), "a b"),
        (replace(CHARACTERS, vocabulary_size=4 + 2), ("aaabbc",), "a b"),
        (replace(CONFIG, min_frequency=2), ("a a a b b c",), "a b"),
        (replace(CHARACTERS, min_frequency=2), ("aaabbc",), "a b"),
        (CONFIG, ("Der der Der DER",), "Der DER der"),
    ],
)
def test_the_most_frequent_units_are_the_vocabulary(config, lines, expected):
    assert units(config, *lines) == expected.split()


@pytest.mark.parametrize(
    ("config", "lines", "kind"),
    [(CONFIG, ("a a b", "c a"), "words"), (CHARACTERS, ("aab", "ca"), "characters")],
)
def test_how_much_of_the_text_is_unknown_is_reported(config, lines, kind, caplog):
    with caplog.at_level(logging.INFO, logger="seq2seq"):
        units(replace(config, min_frequency=2), *lines)

    assert caplog.messages[0] == (
        f"train (source): in the vocabulary: 1 of 3 different {kind}; unknown in the text: 2 of 5"
    )


@pytest.mark.parametrize(
    ("rules", "language", "line"),
    [
        ("moses", "en", "It's a dog's life, isn't it? \"Yes\" (no) 50% & $3.50 e.g. [x]"),
        ("moses", "de", 'Der Hund (braun), z.B. ein Dackel, läuft 3,5 km; "schnell"!'),
        ("moses", "fr", "L'eau d'ici, n'est-ce pas ?"),
        ("moses", "cs", "Pes běží po sněhu."),
        ("moses", "fr", "C\u2019est l\u2019eau, \u00ab d\u2019ici \u00bb : il est 12:30."),
        ("moses", "de", "Mir geht's gut: \u00bbTom\u00ab trägt Trader Joe's, (4') 5€."),
        ("moses", "en", "\u201cThat\u2019s it,\u201d he said at 2:30 ... what's gayer?! 'tis"),
        ("moses", "en", "http://example.com/a?b=1, info@example.org, #tag, C++, user_name, x=3"),
        (
            "moses",
            "en",
            "and/or 1/2 \U0001f468\u200d\U0001f469\u200d\U0001f467 {x}[y]<z> 1990s a\u2014b c -- d",
        ),
        ("moses", "en", "彼は「はい。」と答えた。 वह गया। هل أنت بخير؟"),
        ("basic_english", "en", "it's a dog (brown), isn't it? yes. [no"),
    ],
)
def test_words_are_joined_to_the_same_text(rules, language, line):
    tokenizer = knowing(line, splitter=rules, language=language)

    assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_a_tokenizer_that_drops_characters_keeps_words_apart():
    line = 'at 2:30 "so"; a;b "no".'
    tokenizer = knowing(line, splitter="basic_english", language="en")

    assert tokenizer.decode(tokenizer.encode([line])[0]) == "at 2 30 so a b no."


def test_a_rare_form_of_a_word_becomes_its_frequent_form():
    lines = ("a-- b", "a, b", "a, c", "b ,c", "c")
    tokenizer = train_tokenizers(
        replace(CONFIG, min_frequency=2), list_corpus([(line, "x") for line in lines])
    ).source

    ids = tokenizer.encode(["b ,c"])[0]

    assert tokenizer.tokens(ids) == ["b", ",", "c"]
    assert tokenizer.tokens(range(4, len(tokenizer))) == [",", "b", "c", "a"]
    assert tokenizer.decode(ids) == "b, c"


def test_symbols_of_spans_are_tokens_of_their_own_with_exact_spaces():
    config = replace(CONFIG, protect=["numbers", "emoji"])
    line = "(5\U0001f600)7\U0001f6007%-ig \U0001f600 x=3"
    source = train_tokenizers(config, list_corpus([(line, line)])).source

    text, spans = source.rules.prepare(line)[:2]
    ids = source.encode([text])[0]

    assert len(spans) == 3  # the other numbers and emoji stand inside of words
    assert [source.tokens(ids).count(symbol) for symbol in SYMBOLS[:3]] == [1] * 3
    assert restore(source.decode(ids), spans) == line


def test_basic_english_splits_the_english_side_only():
    config = replace(CONFIG, splitter="basic_english")
    corpus = list_corpus([("Ein Hund: (ja)", "A dog: (yes)")])

    source, target = train_tokenizers(config, corpus)

    assert sorted(source.tokens(range(4, len(source)))) == ["(", ")", ":", "Ein", "Hund", "ja"]
    assert sorted(target.tokens(range(4, len(target)))) == ["(", ")", "a", "dog", "yes"]
    assert [source.folds_case, target.folds_case] == [False, True]


def test_basic_english_is_refused_without_english():
    config = replace(CONFIG, splitter="basic_english")
    corpus = replace(list_corpus([("Ein Hund", "Un chien")]), languages=("de", "fr"))

    with pytest.raises(ValueError, match="splits only English, but the languages are de and fr; c"):
        train_tokenizers(config, corpus)


def test_a_word_that_looks_like_a_special_token_is_unknown():
    [ids] = vocabulary("a", splitter="basic_english").encode(["a </s> <s> <pad>"])

    assert ids == [4, UNK, UNK, UNK]


def test_words_of_text_are_found_where_the_tokenizer_changes_it():
    line = "It's a \"Dog\"; (BROWN) isn't it? <br /> Yes:"
    tokenizer = knowing(line, splitter="basic_english", language="en")
    ids = tokenizer.encode([line])[0]

    owners = tokenizer.words(line, ids)

    found = dict(zip(tokenizer.tokens(ids), owners, strict=True))
    expected = {"a": 1, "dog": 2, "brown": 3, "isn": 4, "it": 5, "yes": 8}
    assert {word: found[word] for word in expected} == expected


def test_an_unknown_word_that_holds_the_next_one_keeps_its_place():
    tokenizer = vocabulary("house", "a")
    line = "a dog-house house a"

    assert tokenizer.words(line, tokenizer.encode([line])[0]) == [0, 1, 2, 3]


def test_words_of_decoded_text_are_found():
    tokenizer = vocabulary("isn", "\t't", "it", "\t?")
    ids = [4, 5, UNK, 6, 7]

    assert tokenizer.decode(ids) == "isn't \u2047 it?"
    assert tokenizer.words(tokenizer.decode(ids), ids) == [0, 0, 1, 2, 2]


def test_languages_without_moses_rules_use_english_ones_with_a_warning(caplog):
    line = "isn't it? e.g. l'eau"
    corpus = replace(list_corpus([(line, line)]), languages=("source", "target"))

    tokenizers = train_tokenizers(CONFIG, corpus)

    assert caplog.messages == [
        f"tokenizer=words: moses has no rules for '{language}' and splits words by its English "
        "rules; for other rules set data.source and data.target to language codes such as de and "
        "fr, and for text without spaces choose tokenizer=unigram"
        for language in ("source", "target")
    ]
    for tokenizer in tokenizers:
        [ids] = tokenizer.encode([line])
        assert tokenizer.tokens(ids) == ["isn", "'t", "it", "?", "e.g.", "l", "'eau"]
        assert tokenizer.decode(ids) == line


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["maus 1 2 3", "hund 4 5"], r"got \[3\] at entry 0 and \[2\]"),
        (["hund eins zwei drei"], "could not convert string to float: 'eins'"),
        (["hund"], r"got \[3\] at entry 0 and \[0\]"),
        (["hund 1 nan 3"], "a number is not finite"),
    ],
)
def test_a_file_without_vectors_of_the_size_is_refused(tmp_path, lines, message):
    path = vectors_file(tmp_path, *lines)

    with pytest.raises(ReadingError, match=f"^{re.escape(str(path))}: .*{message}"):
        load_vectors(path, vocabulary("hund"), 3)


@pytest.mark.parametrize(
    ("lines", "words", "rows"),
    [
        (["hund 1 2", "maus 7 8", "katze 4 .5"], "katze vogel hund", [[4, 0.5], [0, 0], [1, 2]]),
        (["2 2", "hund 1 2 ", "katze 4 5 "], "2 katze", [[0, 0], [4, 5]]),  # the form of FastText
        (["hund 1 2", ". . . 4 5", "at name@domain.com 7 8"], "hund", [[1, 2]]),  # GloVe
        (["hund 1 2", "Katze 4 5", "katze 7 8"], "Hund Katze", [[1, 2], [4, 5]]),
    ],
)
def test_known_words_have_the_vectors_of_a_file(tmp_path, lines, words, rows):
    matrix = load_vectors(vectors_file(tmp_path, *lines), vocabulary(*words.split()), 2)

    assert matrix.tolist() == [*[[0, 0]] * 4, *rows]


def test_characters_can_have_vectors_of_a_file_in_the_home_directory(tmp_path, monkeypatch):
    vectors_file(tmp_path, "b 1 2 3")
    monkeypatch.setenv("HOME", str(tmp_path))
    tokenizer = CharacterTokenizer(["a", "b"])

    assert load_vectors("~/vectors.txt", tokenizer, 3)[-1].tolist() == [1, 2, 3]
