import pytest

from seq2seq.attention import attention_config_types
from seq2seq.checks import Mark, marks_of_keys
from seq2seq.config.schema import config_groups, load_config
from seq2seq.search import decoding_config_types


def test_overrides_choose_parts_and_values():
    config = load_config("attention=multihead", "model=luong", "training.max_epochs=2")

    assert config.attention.name == "multihead"
    assert config.model.decoder.input_feeding
    assert config.training.max_epochs == 2


def test_changes_of_a_loaded_configuration_do_not_reach_the_next_one():
    first = load_config()
    first.training.max_epochs = 77

    assert load_config().training.max_epochs != 77


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\nb"])
def test_a_run_name_with_a_path_is_refused(name):
    with pytest.raises(ValueError, match=r"^run_name='.*' must be the name of a directory"):
        load_config(f"run_name='{name}'")


@pytest.mark.parametrize("group", sorted(config_groups()))
def test_a_name_of_another_type_is_refused(group):
    other = {"attention": "dot", "data": "multi30k", "tokenizer": "words", "decoding": "sampling"}

    message = rf"^{group}\.name={other[group]} does not name this {group}; remove it and choose"
    with pytest.raises(ValueError, match=message):
        load_config(f"{group}.name={other[group]}")


@pytest.mark.parametrize(("name", "model"), [("unigram", "bpe")])
def test_a_sentencepiece_model_of_another_name_is_refused(name, model):
    message = rf"^tokenizer\.model_type={model} does not belong to tokenizer={name}; remove it and"
    with pytest.raises(ValueError, match=message):
        load_config(f"tokenizer={name}", f"tokenizer.model_type={model}")


def test_every_key_says_whether_it_may_change_when_a_run_is_resumed():
    own_files = ("data=files", "data.train=[a.tsv]", "data.valid=[b.tsv]", "tokenizer=words")
    configs = [load_config(*own_files), load_config("data=multi30k", "tokenizer=characters")]
    configs += [load_config(), *(each() for each in attention_config_types().values())]
    configs += [each() for each in decoding_config_types().values()]
    marks = {key: own for config in configs for key, own in marks_of_keys(config).items()}

    without = [
        key for key, own in marks.items() if len(own & {Mark.free, Mark.named, Mark.fixed}) != 1
    ]

    assert len(marks) > 100
    assert without == []
