"""A configuration becomes corpora by its type."""

import pytest

from seq2seq.data import DataConfig, FilesConfig, Multi30kConfig, OnInvalid, load_corpora

UNREGISTERED = DataConfig(
    name="mine",
    source="de",
    target="en",
    cache_dir="cache",
    vocabulary_size=50,
    max_epochs=3,
    batch_tokens=100,
    learning_rate=0.001,
    dropout=0.1,
    max_length=20,
    empty_lines=OnInvalid.error,
    long_pairs=OnInvalid.error,
    invalid_utf8=OnInvalid.error,
)


def test_a_type_without_a_loader_is_refused() -> None:
    with pytest.raises(TypeError, match="no corpus is registered for the configuration DataConf"):
        load_corpora(UNREGISTERED)


@pytest.mark.parametrize("config_type", [FilesConfig, Multi30kConfig])
def test_importing_the_package_registers_the_loader(config_type: type[DataConfig]) -> None:
    assert load_corpora.dispatch(config_type) is not load_corpora.dispatch(DataConfig)
