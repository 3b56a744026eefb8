import pytest

from seq2seq.config.compatibility import config_from_checkpoint
from seq2seq.config.schema import load_config
from seq2seq.config.serialization import config_to_dict


@pytest.fixture
def content():
    return config_to_dict(load_config("data=multi30k", "attention=dot", "seed=7"))


def test_a_configuration_of_this_version_is_unchanged(content):
    expected = load_config("data=multi30k", "attention=dot", "seed=7")

    assert config_from_checkpoint(content) == expected


@pytest.mark.parametrize(
    "keys",
    [
        ("init_from",),
        ("overwrite",),
        ("training", "kernels"),
        ("training", "optimizer", "clip_norm"),
        ("tokenizer", "normalization"),
        ("data", "dropout"),
    ],
)
def test_a_key_of_training_that_an_earlier_version_lacked_gets_the_default(content, keys):
    part = content
    for key in keys[:-1]:
        part = part[key]
    expected = part.pop(keys[-1])

    restored = config_to_dict(config_from_checkpoint(content))

    for key in keys[:-1]:
        restored = restored[key]
    assert restored[keys[-1]] == expected


def test_the_other_values_are_kept(content):
    content["training"]["label_smoothing"] = 0.25
    del content["training"]["kernels"]

    restored = config_from_checkpoint(content)

    assert (restored.seed, restored.data.name, restored.training.label_smoothing) == (
        7,
        "multi30k",
        0.25,
    )


def test_a_key_of_training_that_a_later_version_added_is_dropped(content):
    content["training"]["optimizer"]["momentum"] = 0.9
    content["notes"] = "of another version"

    assert config_from_checkpoint(content) == load_config(
        "data=multi30k", "attention=dot", "seed=7"
    )


@pytest.mark.parametrize(
    ("part", "key"), [("model", "bridge"), ("attention", "name"), ("decoding", "name")]
)
def test_a_missing_key_that_translating_reads_is_an_error(content, part, key):
    del content[part][key]

    with pytest.raises(ValueError, match=f"lacks {part}.{key}|cannot read the configuration"):
        config_from_checkpoint(content)


@pytest.mark.parametrize("part", ["model", "attention", "decoding"])
def test_an_unknown_key_that_translating_would_read_is_an_error(content, part):
    content[part]["depth"] = 3

    with pytest.raises(ValueError, match="depth"):
        config_from_checkpoint(content)


@pytest.mark.parametrize("name", ["${oc.env:HOME}", "sqlite", None])
def test_data_of_an_unknown_kind_become_the_default_and_are_not_composed(content, name):
    content["data"] = {"name": name, "server": "localhost"}

    assert config_from_checkpoint(content).data == load_config().data


def test_a_configuration_without_data_gets_the_default(content):
    del content["data"]

    assert config_from_checkpoint(content).data == load_config().data


@pytest.mark.parametrize("content", [{}, [], {"model": 3}, {"data": []}])
def test_content_of_another_shape_is_an_error(content):
    with pytest.raises(ValueError, match=r"cannot read the configuration|lacks"):
        config_from_checkpoint(content)


def test_a_configuration_of_own_files_keeps_them():
    files = ("data.train=[a.de,a.en]", "data.valid=[b.de,b.en]", "data.test=[c.de,c.en]")
    config = load_config("data=files", *files)
    content = config_to_dict(config)
    del content["training"]["kernels"]

    assert config_from_checkpoint(content) == config
