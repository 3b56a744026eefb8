from dataclasses import dataclass

import pytest
import torch

from seq2seq.attention import (
    AttentionConfig,
    Memory,
    UniformAttention,
    UniformConfig,
    attention_config_types,
    register_attention,
)


def test_memory_select_returns_the_given_sentences_in_order():
    memory = Memory(torch.randn(3, 5, 4), torch.randn(3, 5, 6), torch.rand(3, 5) < 0.5)

    selected = memory.select(torch.tensor([2, 0, 2, 2]))

    for part, original in zip(selected, memory, strict=True):
        assert torch.equal(part, torch.stack([original[2], original[0], original[2], original[2]]))


def test_registry_holds_all_shipped_types():
    family = {"none", "uniform", "dot", "general", "additive", "multihead", "gaussian"}

    assert family <= attention_config_types().keys()


def test_changing_the_returned_types_does_not_change_the_registry():
    attention_config_types().clear()

    assert "additive" in attention_config_types()


@dataclass(kw_only=True, slots=True)
class SecondDotConfig(AttentionConfig):
    name: str = "dot"


@pytest.mark.parametrize("config_type", [SecondDotConfig, UniformConfig])
def test_registering_a_name_or_config_twice_is_an_error(config_type):
    before = attention_config_types()

    with pytest.raises(ValueError, match=r"attention '(dot|uniform)' or its config .* is taken"):
        register_attention(config_type)(UniformAttention)

    assert attention_config_types() == before


def test_registering_a_config_without_a_name_is_an_error():
    with pytest.raises(ValueError, match="AttentionConfig needs a name"):
        register_attention(AttentionConfig)(UniformAttention)
