import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import list_corpus, words_config

from seq2seq.config.schema import load_config
from seq2seq.data import (
    WordsConfig,
    WordTokenizer,
    load_corpora,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.torchtext_words import splitter
from seq2seq.special_tokens import EOS, UNK

CONFIG = words_config(vocabulary_size=99)


def words(config: WordsConfig, *lines: str) -> list[str]:
    """Return the source vocabulary learnt from the lines, without special tokens."""
    tokenizer = train_tokenizers(config, list_corpus([(line, "x") for line in lines])).source
    return tokenizer.tokens(range(4, len(tokenizer)))


def knowing(line: str, *, tokenizer: str, language: str) -> WordTokenizer:
    """Return a tokenizer with the words of the line."""
    split = splitter(tokenizer, language=language, lowercase=False)
    return WordTokenizer(
        sorted(set(split(line))), tokenizer=tokenizer, language=language, lowercase=False
    )


def vocabulary(*words: str) -> WordTokenizer:
    return WordTokenizer(words, tokenizer="moses", language="en", lowercase=False)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "It's a dog's life, isn't it? \"Yes\" (no) 50% & $3.50 e.g. [x]"),
        ("de", 'Der Hund (braun), z.B. ein Dackel, läuft 3,5 km; "schnell"!'),
        ("fr", "L'eau d'ici, n'est-ce pas ?"),
        ("cs", "Pes běží po sněhu."),
    ],
)
def test_moses_words_are_joined_to_the_same_text(language: str, line: str) -> None:
    tokenizer = knowing(line, tokenizer="moses", language=language)

    assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_basic_english_words_are_joined_to_the_same_text() -> None:
    line = "it's a dog (brown), isn't it? yes. [no"
    tokenizer = knowing(line, tokenizer="basic_english", language="en")

    assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_contractions_of_other_tokenizers_are_joined() -> None:
    tokenizer = WordTokenizer(
        ["do", "n't", "dog", "'s", "we", "'ll", "!"],
        tokenizer="basic_english",
        language="en",
        lowercase=False,
    )

    assert tokenizer.decode([4, 5, 6, 7, 8, 9, 10]) == "don't dog's we'll!"


def test_basic_english_is_for_english() -> None:
    with pytest.raises(ValueError, match="basic_english is for en, not de; choose moses"):
        train_tokenizers(replace(CONFIG, source_tokenizer="basic_english"), list_corpus([]))


def test_an_unknown_tokenizer_is_refused_with_the_choices() -> None:
    with pytest.raises(
        ValueError,
        match="unknown word tokenizer 'mosess'; one of: basic_english, moses, spacy, toktok",
    ):
        train_tokenizers(replace(CONFIG, target_tokenizer="mosess"), list_corpus([]))


def test_words_are_sorted_by_frequency_then_alphabetically() -> None:
    assert words(CONFIG, "der Hund und der Ball", "ein Hund und der Ast") == [
        "der",
        "Hund",
        "und",
        "Ast",
        "Ball",
        "ein",
    ]


def test_the_vocabulary_holds_no_more_than_configured() -> None:
    assert words(replace(CONFIG, vocabulary_size=4 + 2), "a a a b b c") == ["a", "b"]


def test_rare_words_are_unknown() -> None:
    assert words(replace(CONFIG, min_frequency=2), "a a a b b c") == ["a", "b"]


def test_lower_case_is_a_choice() -> None:
    assert words(replace(CONFIG, lowercase=True), "Der der DER") == ["der"]
    assert words(CONFIG, "Der der Der DER") == ["Der", "DER", "der"]


def test_each_side_has_its_own_words_and_tokenizer() -> None:
    config = replace(CONFIG, target_tokenizer="basic_english")

    tokenizers = train_tokenizers(config, list_corpus([("Ein Hund", "A Dog")]))

    assert tokenizers.source.tokens([4, 5]) == ["Ein", "Hund"]
    assert tokenizers.target.tokens([4, 5]) == ["a", "dog"]


def test_how_much_of_the_text_is_unknown_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="seq2seq"):
        words(replace(CONFIG, min_frequency=2), "a a b", "c a")

    assert caplog.messages[0] == (
        "train (source): 1 of 3 different words are in the vocabulary; "
        "2 of 5 in the text are unknown"
    )


def test_a_word_that_looks_like_a_special_token_is_unknown() -> None:
    split = WordTokenizer(["a"], tokenizer="basic_english", language="en", lowercase=False)

    ids = split.encode(["a </s> <s> <pad>"])[0]

    assert ids == [4, UNK, UNK, UNK]
    assert EOS not in ids


def test_words_of_text_are_found_where_the_tokenizer_changes_it() -> None:
    line = "It's a \"Dog\"; (BROWN) isn't it? <br /> Yes:"
    tokenizer = knowing(line, tokenizer="basic_english", language="en")
    ids = tokenizer.encode([line])[0]

    owners = tokenizer.words(line, ids)

    found = dict(zip(tokenizer.tokens(ids), owners, strict=True))
    assert {word: found[word] for word in ("a", "dog", "brown", "isn", "it", "yes")} == {
        "a": 1,
        "dog": 2,
        "brown": 3,
        "isn": 4,
        "it": 5,
        "yes": 8,
    }


def test_an_unknown_word_that_holds_the_next_one_keeps_its_place() -> None:
    tokenizer = vocabulary("house", "a")
    line = "a dog-house house a"

    assert tokenizer.words(line, tokenizer.encode([line])[0]) == [0, 1, 2, 3]


def test_words_of_decoded_text_are_found() -> None:
    tokenizer = vocabulary("isn", "'t", "it", "?")
    ids = [4, 5, UNK, 6, 7]

    assert tokenizer.decode(ids) == "isn't \u2047 it?"
    assert tokenizer.words(tokenizer.decode(ids), ids) == [0, 0, 1, 2, 2]


def test_languages_without_moses_rules_use_english_ones_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = replace(CONFIG, source_language="source", target_language="target")
    line = "isn't it? e.g. l'eau"

    tokenizers = train_tokenizers(config, list_corpus([(line, line)]))

    english = knowing(line, tokenizer="moses", language="en")
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "tokenizer=words: moses has no rules for 'source' and 'target' and splits words by its "
        "English rules; for other rules set data.source and data.target to language codes such as "
        "de and fr, and for text without spaces choose tokenizer=unigram"
    ]
    for tokenizer in tokenizers:
        assert tokenizer.tokens(tokenizer.encode([line])[0]) == english.tokens(
            english.encode([line])[0]
        )
        assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_only_moses_takes_english_rules_for_an_unknown_language(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = replace(
        CONFIG,
        source_language="xx",
        target_language="xx",
        source_tokenizer="basic_english",
    )

    with pytest.raises(ValueError, match="basic_english is for en, not xx"):
        train_tokenizers(config, list_corpus([("a", "b")]))

    assert "no rules for 'xx' and splits" in caplog.text


def test_restored_tokenizers_do_not_warn_again(caplog: pytest.LogCaptureFixture) -> None:
    config = replace(CONFIG, source_language="xx")
    state = tokenizers_state(train_tokenizers(config, list_corpus([("isn't", "b")])))
    caplog.clear()

    restored = tokenizers_from_state(state)

    assert restored.source.tokens([4, 5]) == ["'t", "isn"]
    assert caplog.records == []


def test_words_of_own_files_need_no_language(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("ein Hund\ta dog\nein Hund\ta dog\n")
    table = f"['{tmp_path}/a.tsv']"
    paths = [f"data.{part}={table}" for part in ("train", "valid", "test")]
    config = load_config("data=files", "tokenizer=words", *paths)

    tokenizers = train_tokenizers(config.tokenizer, load_corpora(config.data).train)

    assert tokenizers.target.tokens([4, 5]) == ["a", "dog"]
