"""Characters are chosen by frequency."""

import logging

import pytest
from tiny_data import list_corpus

from seq2seq.data import CharactersConfig, CharacterTokenizer, train_tokenizers
from seq2seq.special_tokens import UNK


def config(*, vocabulary_size: int = 99, min_frequency: int = 1) -> CharactersConfig:
    return CharactersConfig(
        name="characters", vocabulary_size=vocabulary_size, min_frequency=min_frequency
    )


def characters(config: CharactersConfig, *lines: str) -> list[str]:
    """Return the source vocabulary learnt from the lines, without special tokens."""
    tokenizer = train_tokenizers(config, list_corpus([(line, "x") for line in lines])).source
    return tokenizer.tokens(range(4, len(tokenizer)))


def test_characters_are_sorted_by_frequency_then_by_code() -> None:
    assert characters(config(), "ccb", "bdaa", "d", "d") == ["d", "a", "b", "c"]


def test_the_order_of_the_lines_does_not_matter() -> None:
    assert characters(config(), "ab", "ba") == characters(config(), "ba", "ab")


def test_the_vocabulary_holds_no_more_than_configured() -> None:
    assert characters(config(vocabulary_size=4 + 2), "aaabbc") == ["a", "b"]


def test_rare_characters_are_unknown() -> None:
    assert characters(config(min_frequency=2), "aaabbc") == ["a", "b"]


def test_each_language_has_its_own_characters() -> None:
    tokenizers = train_tokenizers(config(), list_corpus([("aä", "bc"), ("a", "b")]))

    assert tokenizers.source.tokens(range(4, len(tokenizers.source))) == ["a", "ä"]
    assert tokenizers.target.tokens(range(4, len(tokenizers.target))) == ["b", "c"]


def test_each_character_is_one_id() -> None:
    tokenizer = CharacterTokenizer(["b", " ", "a"])

    assert tokenizer.encode(["ab  xa", "b"]) == [[6, 4, 5, 5, UNK, 6], [4]]
    assert len(tokenizer) == 4 + 3


def test_whitespace_is_restored() -> None:
    text = " a\t b  \u00a0a "
    tokenizer = CharacterTokenizer(sorted(set(text)))

    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


def test_a_space_can_be_seen_in_labels() -> None:
    tokenizer = CharacterTokenizer([" ", "a"])

    assert tokenizer.tokens(tokenizer.encode(["a a"])[0]) == ["a", "\u2581", "a"]


def test_a_space_belongs_to_the_word_after_it() -> None:
    tokenizer = CharacterTokenizer(["a", "b", " ", "."])

    assert tokenizer.words("ab. b ", tokenizer.encode(["ab. b "])[0]) == [0, 0, 0, 1, 1, 1]


def test_how_much_of_the_text_is_unknown_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        characters(config(min_frequency=2), "aaab", "c")

    assert caplog.messages[0] == (
        "train (source): 1 of 3 different characters are in the vocabulary; "
        "2 of 5 in the text are unknown"
    )
