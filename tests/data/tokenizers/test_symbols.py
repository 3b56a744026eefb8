"""Symbols are one token each in every tokenizer, and the text around them is as without them."""

import dataclasses
import itertools

import pytest
from tiny_data import list_corpus, unigram_config, words_config

from seq2seq.data import (
    CharactersConfig,
    CharacterTokenizer,
    SentencePieceModel,
    SymbolTokenizer,
    TokenizerConfig,
    TokenizerPair,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.symbols import WithoutSymbols, leading_symbols
from seq2seq.special_tokens import BOS, EOS

SYMBOLS = ["<2de>", "<2fr>"]
UNIGRAM = unigram_config(user_symbols=SYMBOLS)
CONFIGS: dict[str, TokenizerConfig] = {
    "unigram": UNIGRAM,
    "bpe": dataclasses.replace(UNIGRAM, name="bpe", model_type=SentencePieceModel.bpe),
    "joint": dataclasses.replace(UNIGRAM, joint=True),
    "words": words_config(lowercase=True, user_symbols=SYMBOLS),
    "characters": CharactersConfig(
        name="characters", vocabulary_size=40, min_frequency=1, user_symbols=SYMBOLS
    ),
}
PAIRS = [
    ("<2de> ein hund läuft, und zwei hunde schlafen.", "a dog is running, and two dogs sleep."),
    ("<2fr> zwei männer stehen im schnee!", "two men are standing in the snow!"),
    ("<2de> 2 > 1 < 3, läuft ein mann de fr?", "is a man running?"),
]


CORPUS = list_corpus(PAIRS)


@pytest.fixture(params=CONFIGS)
def tokenizers(request: pytest.FixtureRequest) -> TokenizerPair:
    return train_tokenizers(CONFIGS[request.param], CORPUS)


def test_symbols_are_one_token_each_wherever_they_stand(tokenizers: TokenizerPair) -> None:
    for tokenizer, symbol in itertools.product(tokenizers, SYMBOLS):
        for line in (symbol, f"{symbol} two dogs", f"two {symbol} dogs", f"two{symbol}dogs"):
            [ids] = tokenizer.encode([line])
            assert tokenizer.tokens(ids).count(symbol) == 1


def test_the_text_after_a_symbol_has_the_tokens_that_it_has_alone(
    tokenizers: TokenizerPair,
) -> None:
    for source, _ in PAIRS:
        tag, _, text = source.partition(" ")
        tagged, alone, of_tag = tokenizers.source.encode([source, text, tag])
        assert tagged == of_tag + alone


def test_text_with_symbols_is_restored(tokenizers: TokenizerPair) -> None:
    for source, target in PAIRS:
        assert tokenizers.source.decode(tokenizers.source.encode([source])[0]) == source
        line = f"{target} <2de>"
        assert tokenizers.target.decode(tokenizers.target.encode([line])[0]) == line


def test_the_vocabulary_counts_the_symbols_and_has_nothing_of_them(
    tokenizers: TokenizerPair,
) -> None:
    labels = tokenizers.source.tokens(range(len(tokenizers.source)))

    assert labels[-2:] == SYMBOLS
    assert len(labels) <= 60
    assert not any("2de" in label for label in labels[:-2])


def test_tokens_belong_to_the_words_of_the_text(tokenizers: TokenizerPair) -> None:
    text = "ein hund <2de> läuft <2fr>"
    [ids] = tokenizers.source.encode([text])

    words = tokenizers.source.words(text, ids)

    assert len(words) == len(ids)
    assert words == sorted(words)
    labels = tokenizers.source.tokens(ids)
    assert words[labels.index("<2de>")] == 2
    assert words[labels.index("<2fr>")] == 4
    assert set(words[: labels.index("<2de>")]) >= {0, 1}
    assert 3 in words


def test_a_symbol_inside_a_word_belongs_to_it() -> None:
    tokenizer = SymbolTokenizer(CharacterTokenizer("abc"), ["<x>"])
    text = "a b<x>c a"

    ids = tokenizer.encode([text])[0]
    by_token = list(zip(tokenizer.tokens(ids), tokenizer.words(text, ids), strict=True))
    assert [pair for pair in by_token if pair[0] != "<unk>"] == [
        ("a", 0),
        ("b", 1),
        ("<x>", 1),
        ("c", 1),
        ("a", 2),
    ]


def test_characters_that_spell_a_symbol_are_traced_all_the_same() -> None:
    tokenizer = SymbolTokenizer(CharacterTokenizer("<x> a"), ["<x>"])
    ids = [4, 5, 6, 7, 8]  # "<x> a" as characters

    text = tokenizer.decode(ids)

    assert text == "<x> a"
    assert tokenizer.words(text, ids) == [0, 0, 0, 1, 1]


def test_special_tokens_are_dropped_in_decoding() -> None:
    tokenizer = SymbolTokenizer(CharacterTokenizer("ab"), ["<x>"])

    assert tokenizer.decode([BOS, 6, 4, 5, EOS]) == "<x> ab"


def test_the_longest_of_several_symbols_is_found() -> None:
    tokenizer = SymbolTokenizer(CharacterTokenizer("ab"), ["@", "@de"])

    assert tokenizer.encode(["@de a@"]) == [[7, 4, 6]]


@pytest.mark.parametrize("name", ["unigram", "bpe"])
@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.9])
def test_sampling_never_splits_a_symbol(name: str, alpha: float) -> None:
    tokenizer = train_tokenizers(CONFIGS[name], CORPUS).source
    assert isinstance(tokenizer, SymbolTokenizer)
    lines = [source for source, _ in PAIRS]

    drawn = [tokenizer.sample(lines, seed=s, alpha=alpha, nbest=-1) for s in range(50)]

    for rows in drawn:
        for line, row in zip(lines, rows, strict=True):
            assert row[0] == tokenizer.encode([line.split()[0]])[0][0]
            assert tokenizer.decode(row) == line
    assert len({str(rows) for rows in drawn}) > 1
    assert drawn[7] == tokenizer.sample(lines, seed=7, alpha=alpha, nbest=-1)


def test_the_state_restores_symbols(tokenizers: TokenizerPair) -> None:
    restored = tokenizers_from_state(tokenizers_state(tokenizers))

    lines = [source for source, _ in PAIRS]
    for before, after in zip(tokenizers, restored, strict=True):
        assert after.encode(lines) == before.encode(lines)
        assert len(after) == len(before)
    assert (restored.source is restored.target) == (tokenizers.source is tokenizers.target)


def test_a_corpus_without_symbols_has_all_other_words() -> None:
    pairs = list(WithoutSymbols(CORPUS, SYMBOLS))

    assert [pair.source for pair in pairs] == [source.split(" ", 1)[1] for source, _ in PAIRS]
    assert [pair.target for pair in pairs] == [target for _, target in PAIRS]


def test_leading_symbols_are_those_before_the_text(tokenizers: TokenizerPair) -> None:
    for text, expected in {
        "<2de> ein hund": "<2de> ",
        "<2de> <2fr> ein": "<2de> <2fr> ",
        "<2fr>ein <2de>": "<2fr>",
        " <2de> ein": " <2de> ",
        " \t<2de> ein": " \t<2de> ",
        "  ein": "",
        "ein <2de> hund": "",
        "": "",
    }.items():
        assert leading_symbols(tokenizers.source, text) == expected
    assert leading_symbols(CharacterTokenizer("ab"), "<2de> ab") == ""


@pytest.mark.parametrize("name", ["unigram", "words", "characters"])
def test_a_symbol_of_letters_is_no_part_of_a_word(name: str) -> None:
    config = dataclasses.replace(CONFIGS[name], user_symbols=["ei", "de>"])
    tokenizer = train_tokenizers(config, CORPUS).source
    [ids] = tokenizer.encode(["ei ein zwei ei, einei de>ei hund ade>b ei"])
    number = len(tokenizer) - 2

    assert [i for i in ids if i >= number] == [number, number, number + 1, number, number]
    if name != "words":  # which has unknown words
        assert tokenizer.decode(ids).count("ei") == 8
