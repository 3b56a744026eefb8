"""The registry of tokenizers refuses what it does not know."""

import pytest
from tiny_data import TinyCorpus

from seq2seq.data import CharactersConfig, TokenizerConfig, tokenizers_from_state, train_tokenizers
from seq2seq.data.tokenizers.registry import register_tokenizer


def test_a_configuration_without_a_trainer_is_refused() -> None:
    config = TokenizerConfig(name="mine", vocabulary_size=9)

    with pytest.raises(TypeError, match="no tokenizer is registered for TokenizerConfig"):
        train_tokenizers(config, TinyCorpus([]))


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
