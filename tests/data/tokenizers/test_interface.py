"""Properties of all kinds of tokenizers."""

import dataclasses
import pickle
from pathlib import Path

import pytest
import torch
from tiny_data import list_corpus, unigram_config, words_config

from seq2seq.data import (
    CharactersConfig,
    SentencePieceModel,
    TokenizerConfig,
    TokenizerPair,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.interface import register_tokenizer, word_indices
from seq2seq.special_tokens import BOS, EOS, PAD, UNK

UNIGRAM = unigram_config()
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=40, min_frequency=1)
CONFIGS = {
    "unigram": UNIGRAM,
    "bpe": dataclasses.replace(UNIGRAM, model_type=SentencePieceModel.bpe),
    "joint": dataclasses.replace(UNIGRAM, joint=True),
    "words": words_config(target_tokenizer="basic_english"),
    "characters": CHARACTERS,
}
SENTENCES = [
    ("Ein Hund läuft, und zwei Hunde schlafen.", "a dog is running, and two dogs sleep."),
    ("Zwei Männer stehen im Schnee!", "two men are standing in the snow!"),
    ("Läuft ein Mann?", "is a man running?"),
]


CORPUS = list_corpus(SENTENCES)


@pytest.fixture(scope="module", params=CONFIGS)
def tokenizers(request: pytest.FixtureRequest) -> TokenizerPair:
    return train_tokenizers(CONFIGS[request.param], CORPUS)


def test_known_text_is_restored_from_ids_that_are_not_special(tokenizers: TokenizerPair) -> None:
    for tokenizer, lines in zip(tokenizers, zip(*SENTENCES, strict=True), strict=True):
        assert tokenizer.tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
        for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
            assert EOS < min(ids) <= max(ids) < len(tokenizer)
            assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == line


def test_unknown_text_shows_as_its_sign_and_an_empty_line_has_no_ids(
    tokenizers: TokenizerPair,
) -> None:
    empty, ids = tokenizers.source.encode(["", "Ein \u65e5 Hund"])

    assert UNK in ids
    assert tokenizers.source.decode(ids) == "Ein \u2047 Hund"
    assert empty == []
    assert tokenizers.source.decode([]) == ""


@pytest.mark.parametrize(
    "line", ["  Ein\t Hund \u00a0läuft ,  und", "Ein Hund", " zwei\u2028Hunde."]
)
def test_each_id_belongs_to_a_word_in_order(tokenizers: TokenizerPair, line: str) -> None:
    ids = tokenizers.source.encode([line])[0]

    words = tokenizers.source.words(line, ids)

    assert len(words) == len(ids)
    assert words == sorted(words)
    assert set(words) == set(range(len(line.split())))


def test_unknown_characters_do_not_shift_the_words(tokenizers: TokenizerPair) -> None:
    line = "Ein \u65e5\u672c\u8a9e\u65e5 Hund \u65e5Mann\u672c."
    ids = tokenizers.source.encode([line])[0]
    words = tokenizers.source.words(line, ids)

    together = {
        word: tokenizers.source.decode(
            [i for i, owner in zip(ids, words, strict=True) if owner == word]
        ).strip()
        for word in set(words)
    }

    assert set(words) == {0, 1, 2, 3}
    assert (together[0], together[2]) == ("Ein", "Hund")
    assert set(together[1].replace(" ", "")) == {"\u2047"}


def test_words_of_decoded_text_are_found_for_any_segmentation(tokenizers: TokenizerPair) -> None:
    first, second = tokenizers.source.encode(["Ein Hund", "läuft,"])
    ids = [*first, UNK, *second]
    text = tokenizers.source.decode(ids)

    words = tokenizers.source.words(text, ids)

    assert words[0] == 0
    assert words == sorted(words)
    assert words[-1] == len(text.split()) - 1


def test_state_survives_a_safe_load(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    lines = [f"{source} \u65e5" for source, _ in SENTENCES]
    torch.save(tokenizers_state(tokenizers), tmp_path / "state.pt")

    restored = tokenizers_from_state(torch.load(tmp_path / "state.pt", weights_only=True))

    for before, after in zip(tokenizers, restored, strict=True):
        assert after is not before
        assert after.encode(lines) == before.encode(lines)
        assert after.tokens(range(len(after))) == before.tokens(range(len(before)))
    assert (restored.source is restored.target) == (tokenizers.source is tokenizers.target)


def test_tokenizers_can_be_sent_to_another_process(tokenizers: TokenizerPair) -> None:
    lines = [source for source, _ in SENTENCES]

    sent: TokenizerPair = pickle.loads(pickle.dumps(tokenizers))  # as torch.distributed sends it

    assert sent.source.encode(lines) == tokenizers.source.encode(lines)
    assert (sent.source is sent.target) == (tokenizers.source is tokenizers.target)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_twice_gives_the_same_vocabulary(name: str) -> None:
    first = train_tokenizers(CONFIGS[name], CORPUS)
    second = train_tokenizers(CONFIGS[name], CORPUS)

    assert (first.source is first.target) == (name == "joint")
    for left, right in zip(first, second, strict=True):
        assert left.tokens(range(len(left))) == right.tokens(range(len(right)))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_corpus_without_text_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"train .*: no text to train a tokenizer on; give"):
        train_tokenizers(CONFIGS[name], list_corpus([]))


@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        ("ab c", ["a", "b", " c"], [0, 0, 1]),
        ("ab c", [" ab", " ", "c"], [0, 1, 1]),
        (" ab  c ", [" ", "ab", " ", "c", " "], [0, 0, 1, 1, 1]),
        ("ab c", [None, "c"], [0, 1]),
        ("ab cd", ["a", None, "d"], [0, 0, 1]),
        ("ab c", [None, None, None], [0, 0, 1]),
        ("ab c", [None, None, None, None, "x"], [0, 0, 1, 1, 1]),
        ("ab c d", ["ab", "x", "d"], [0, 1, 2]),
        ("", ["a", None, ""], [0, 0, 0]),
        ("a b", [], []),
    ],
)
def test_tokens_are_traced_through_the_text(
    text: str, surfaces: list[str | None], expected: list[int]
) -> None:
    assert word_indices(text, surfaces) == expected


def test_a_configuration_without_a_trainer_is_refused() -> None:
    config = TokenizerConfig(name="mine", vocabulary_size=9)

    with pytest.raises(TypeError, match="no tokenizer is registered for TokenizerConfig"):
        train_tokenizers(config, list_corpus([]))


def test_an_unknown_kind_of_state_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown tokenizer kind 'runes'; one of: characters, sent"
    ):
        tokenizers_from_state({"joint": {"kind": "runes"}})


@pytest.mark.parametrize(
    ("config_type", "kind"), [(TokenizerConfig, "characters"), (CharactersConfig, "runes")]
)
def test_a_kind_and_a_config_type_are_registered_once(
    config_type: type[TokenizerConfig], kind: str
) -> None:
    with pytest.raises(ValueError, match=f"tokenizer kind '{kind}' or its {config_type.__name__}"):
        register_tokenizer(config_type, kind=kind, restore=lambda state: None)
