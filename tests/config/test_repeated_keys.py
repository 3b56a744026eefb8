"""A key that stands twice in a dictionary of the command line is refused."""

import pytest

from seq2seq.config.repeated_keys import check_repeated_keys
from seq2seq.config.schema import load_config


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data.train={a: [1.tsv], a: [2.tsv]}", "a"),
        ("data.train={a:[1.tsv],a:[2.tsv]}", "a"),
        ("data.train={a: {files: [1.tsv], weight: 1, weight: 2}}", "weight"),
        ("data.train={'a b': [1.tsv], 'a b': ['2:3.tsv']}", "a b"),
    ],
)
def test_a_repeated_key_is_named(override: str, key: str) -> None:
    with pytest.raises(ValueError, match=rf"^data\.train has the key {key} twice; "):
        check_repeated_keys(["seed=1", override])


@pytest.mark.parametrize(
    "override",
    [
        "data.train={a: {files: [1.tsv], weight: 1}, b: {files: [2.tsv], weight: 1}}",
        "data.train=['{a','a}']",
        "data.train={a: [1.tsv]",
        "text={a: b: c}",
        "data.train={a: [gr\udcfc.tsv]}",  # a file name that is not UTF-8
        "training.max_updates=3",
    ],
)
def test_other_overrides_pass(override: str) -> None:
    check_repeated_keys([override])


def test_a_configuration_is_refused_before_it_is_composed() -> None:
    with pytest.raises(ValueError, match="has the key a twice"):
        load_config("data=files", "data.train={a: [1.tsv], a: [2.tsv]}", "data.valid=[3.tsv]")
