"""Configurations of tokenizers refuse values out of range."""

import dataclasses
import re

import pytest

from seq2seq.config.schema import load_config
from seq2seq.data import CharactersConfig, SentencePieceConfig, TokenizerConfig, WordsConfig

NAMES = ("unigram", "bpe", "words", "characters")


def config_of(name: str) -> TokenizerConfig:
    return load_config(f"tokenizer={name}").tokenizer


@pytest.mark.parametrize(
    ("name", "config_type"),
    [
        ("unigram", SentencePieceConfig),
        ("bpe", SentencePieceConfig),
        ("words", WordsConfig),
        ("characters", CharactersConfig),
    ],
)
def test_each_kind_has_its_type(name: str, config_type: type) -> None:
    assert type(config_of(name)) is config_type


@pytest.mark.parametrize("name", NAMES)
def test_a_vocabulary_of_special_tokens_alone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.vocabulary_size=4 must be more than 4"):
        dataclasses.replace(config_of(name), vocabulary_size=4)


@pytest.mark.parametrize("name", ["unigram", "bpe"])
def test_a_default_configuration_changes_nothing_in_the_text(name: str) -> None:
    config = config_of(name)

    assert isinstance(config, SentencePieceConfig)
    assert config.normalization.name == "identity"
    assert config.sampling_alpha == 0


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("bpe", {"sampling_alpha": 1.1}, "sampling_alpha=1.1 is a probability with BPE"),
        ("unigram", {"sampling_nbest": 1}, "sampling_nbest=1 must be -1, for all, or at least 2"),
        ("unigram", {"sampling_nbest": 0}, "sampling_nbest=0 must be -1, for all, or at least 2"),
        ("bpe", {"sampling_nbest": 5}, "sampling_nbest=5 is for unigram models; BPE has no list"),
    ],
)
def test_sampling_out_of_range_is_refused(
    name: str, values: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^tokenizer.{message}"):
        dataclasses.replace(config_of(name), **values)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([""], "tokenizer.user_symbols: '' must be a text without spaces, such as '<2de>'"),
        (["<2 de>"], "tokenizer.user_symbols: '<2 de>' must be a text without spaces, such as"),
        (["</s>"], "tokenizer.user_symbols: '</s>' is a special token; choose another text"),
        (["<a>", "<b>", "<a>"], "tokenizer.user_symbols=[<a>,<b>,<a>] names a symbol twice"),
    ],
)
def test_texts_that_cannot_be_symbols_are_refused(
    name: str, symbols: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        dataclasses.replace(config_of(name), user_symbols=symbols)


def test_a_vocabulary_without_room_beside_the_symbols_is_refused() -> None:
    with pytest.raises(ValueError, match="must be more than 6, the number of special tokens and s"):
        dataclasses.replace(config_of("words"), vocabulary_size=6, user_symbols=["<a>", "<b>"])
