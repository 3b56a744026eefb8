import dataclasses

import pytest

from seq2seq.config.schema import TrainConfig, config_groups, load_config


def test_every_group_is_a_key_of_the_configuration():
    keys = {field.name for field in dataclasses.fields(TrainConfig)}

    assert config_groups().keys() <= keys


def test_overrides_choose_parts_and_values():
    config = load_config("attention=multihead", "model=luong", "training.max_epochs=2")

    assert config.attention.name == "multihead"
    assert config.model.decoder.input_feeding
    assert config.training.max_epochs == 2


def test_changes_of_a_loaded_configuration_do_not_reach_the_next_one():
    first = load_config()
    first.training.max_epochs = 77

    assert load_config().training.max_epochs != 77


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_a_run_name_with_a_path_is_refused(name):
    with pytest.raises(ValueError, match=rf"^run_name='{name}' must be the name of a directory"):
        load_config(f"run_name='{name}'")


@pytest.mark.parametrize("group", sorted(config_groups()))
def test_a_name_of_another_type_is_refused(group):
    other = {"attention": "dot", "data": "multi30k", "tokenizer": "words", "decoding": "sampling"}

    message = rf"^{group}\.name={other[group]} does not name this {group}; remove it and choose"
    with pytest.raises(ValueError, match=message):
        load_config(f"{group}.name={other[group]}")


@pytest.mark.parametrize(("name", "model"), [("unigram", "bpe"), ("bpe", "unigram")])
def test_a_sentencepiece_model_of_another_name_is_refused(name, model):
    message = rf"^tokenizer\.model_type={model} does not belong to tokenizer={name}; remove it and"
    with pytest.raises(ValueError, match=message):
        load_config(f"tokenizer={name}", f"tokenizer.model_type={model}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("run_name='a\nb'", "must not contain a line feed"),
        ("model.encoder.num_layers=10000000", "must be at most 100"),
        ("model.decoder.num_layers=10000000", "must be at most 100"),
        ("model.encoder.hidden_size=10000000", "must be at most 20,000"),
        ("decoding.max_length_offset=1000000000000000000", "must be at most 1,000,000"),
        ("decoding.beam_size=1000000000", "must be at most 10,000"),
    ],
)
def test_a_value_beyond_reason_is_refused(override, message):
    with pytest.raises(ValueError, match=message):
        load_config("decoding=beam", override)
