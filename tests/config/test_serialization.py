import dataclasses
import json

import pytest
import yaml

from seq2seq.config.composition import describe_error
from seq2seq.config.schema import load_config
from seq2seq.config.serialization import (
    config_differences,
    config_from_dict,
    config_to_dict,
    is_saved_config,
    load_saved_config,
    save_config,
)
from seq2seq.files.paths import ReadingError


@pytest.mark.parametrize("attention", ["gaussian", "none"])
def test_a_configuration_survives_conversion_to_plain_types(attention):
    config = load_config(f"attention={attention}", "tokenizer=bpe", "decoding=beam")

    content = config_to_dict(config)

    assert config_from_dict(content) == config
    assert content == yaml.safe_load(yaml.safe_dump(content))


CONTENT = config_to_dict(load_config())


CHANGES = [
    {"attention": {"name": "hard"}},
    {"attention": {"name": "dot", "width": 3}},
    {"attention": {}},
    {"training": {}},
    {"data": []},
    {"model": 3},
]


@pytest.mark.parametrize(
    "content",
    [
        *(b"[" * 3000, b"a: &a [*a]", b"a: [", b"- b", b"a: b: c", b"", b"\xff\xfe", b"\x00\x00"),
        *(json.dumps(CONTENT | change).encode() for change in CHANGES),
    ],
)
def test_a_damaged_saved_file_is_named(tmp_path, content):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)

    with pytest.raises(ReadingError) as refused:
        load_saved_config(path)

    assert describe_error(refused.value).startswith(f"{path}: ")


def test_differences_name_keys_and_both_values():
    first = load_config("seed=1", "attention=additive", "attention.size=64")
    second = load_config("seed=3", "attention=none")

    differences = config_differences(first, second)

    assert list(map(str, differences)) == [
        "attention.name (additive -> none)",
        "attention.size (64 -> absent)",
        "run_name (grammar-additive -> grammar-none)",
        "seed (1 -> 3)",
    ]
    assert config_differences(first, dataclasses.replace(first)) == []


def test_a_saved_configuration_is_recognized_though_altered_and_no_other_file(tmp_path):
    path = tmp_path / "config.yaml"
    save_config(load_config(), path)
    altered = path.read_text().replace("accumulation: 1", "accumulation: 0")

    for text in (altered, "run_name: a\n", "data:\n  train: a\n", ""):
        path.write_text(text)
        assert is_saved_config(path) == (text == altered)


def test_a_bomb_of_yaml_aliases_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "config.yaml"
    lines = [f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 12)]
    path.write_text("\n".join(["a0: &a0 [x]", *lines]))

    with pytest.raises(ValueError, match=r"config\.yaml: it has a YAML alias"):
        load_saved_config(path)


@pytest.mark.parametrize("text", ["${oc.env:HOME}", "${NAME}", "a\\${b}"])
def test_a_text_like_an_interpolation_is_kept_and_not_resolved(text, tmp_path):
    config = load_config()
    config.run_name = text
    config.tokenizer.user_symbols = ["<x>", text]
    path = tmp_path / "config.yaml"
    save_config(config, path)

    assert config_from_dict(config_to_dict(config)) == config
    assert load_saved_config(path) == config
