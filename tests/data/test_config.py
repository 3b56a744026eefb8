"""Data configurations refuse bad values before anything is read."""

import dataclasses
import re

import pytest
from tiny_data import BASE, shared

from seq2seq.data import DataConfig, FilesConfig, GrammarConfig, Multi30kConfig, OnInvalid

SHARED = shared(long_pairs=OnInvalid.skip)
GRAMMAR = GrammarConfig(
    **SHARED, grammar="data/x.grammar", seed=0, num_train=5, num_valid=3, num_test=2
)
MULTI30K = Multi30kConfig(
    **SHARED, root="data/multi30k", base_url="https://example.org", test="test_2016_flickr"
)
FILES = FilesConfig(**SHARED, train=["a.de", "a.en"], valid=["b.tsv"], test=["c.tsv.gz"])


@pytest.mark.parametrize("config", [GRAMMAR, MULTI30K])
def test_equal_languages_are_refused_where_a_corpus_has_two(config: DataConfig) -> None:
    with pytest.raises(ValueError, match=r"data\.source=en and data\.target=en must differ for"):
        dataclasses.replace(config, source="en")


def test_own_files_may_have_one_language_and_be_the_same_file() -> None:
    config = dataclasses.replace(FILES, source="en", train=["a.en", "a.en"])

    assert config.source == config.target


@pytest.mark.parametrize("key", ["vocabulary_size", "max_epochs", "max_length"])
@pytest.mark.parametrize("config", [BASE, GRAMMAR, MULTI30K, FILES])
def test_sizes_below_one_are_refused_by_every_type(config: DataConfig, key: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.{key}=0 must be at least 1"):
        dataclasses.replace(config, **{key: 0})


@pytest.mark.parametrize("key", ["name", "source", "target", "cache_dir"])
def test_empty_names_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.{key}=' ' must not be empty"):
        dataclasses.replace(BASE, **{key: " "})


@pytest.mark.parametrize("key", ["num_train", "num_valid", "num_test"])
def test_grammar_sizes_below_one_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.{key}=0 must be at least 1"):
        dataclasses.replace(GRAMMAR, **{key: 0})


def test_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"data\.seed=-1 must be a number of at least 0"):
        dataclasses.replace(GRAMMAR, seed=-1)


def test_empty_grammar_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"data\.grammar='' must not be empty"):
        dataclasses.replace(GRAMMAR, grammar="")


@pytest.mark.parametrize("key", ["root", "base_url", "test"])
def test_empty_multi30k_values_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.{key}='' must not be empty"):
        dataclasses.replace(MULTI30K, **{key: ""})


@pytest.mark.parametrize("paths", [[], ["a", "b", "c"], [""], ["a", " "]])
@pytest.mark.parametrize("key", ["train", "valid", "test"])
def test_other_than_one_or_two_paths_are_refused(key: str, paths: list[str]) -> None:
    with pytest.raises(
        ValueError, match=rf"data\.{key}=\[.*\] must contain one or two paths; give"
    ):
        dataclasses.replace(FILES, **{key: paths})


def test_one_file_for_two_languages_is_refused() -> None:
    with pytest.raises(ValueError, match=r"data\.valid=\[a\.de,a\.de\] names one file twice"):
        dataclasses.replace(FILES, valid=["a.de", "a.de"])


@pytest.mark.parametrize(
    ("paths", "table"),
    [
        (["a.tsv", "b.tsv"], "a.tsv"),
        (["a.tsv.gz", "b.tsv.gz"], "a.tsv.gz"),
        (["a.de", "b.tsv"], "b.tsv"),
    ],
)
def test_two_files_of_two_columns_are_refused(paths: list[str], table: str) -> None:
    with pytest.raises(ValueError, match="two columns") as caught:
        dataclasses.replace(FILES, train=paths)

    assert str(caught.value) == (
        f"data.train=[{','.join(paths)}]: {table} is a file of two columns, which is given alone: "
        f"data.train=[{table}]; give several as data.train=[[a.tsv],[b.tsv]], or set "
        "data.allow_tabs=true to read each as one side"
    )


def test_files_named_tsv_are_read_as_sides_if_tabs_are_allowed() -> None:
    config = dataclasses.replace(FILES, train=["a.tsv", "b.tsv"], allow_tabs=True)

    assert config.train == ["a.tsv", "b.tsv"]


def test_the_test_files_may_be_left_out() -> None:
    assert dataclasses.replace(FILES, test=None).test is None


def test_test_files_may_be_the_validation_files() -> None:
    config = dataclasses.replace(FILES, test=["b.tsv"])

    assert config.test == config.valid


def test_a_misspelt_key_cannot_be_set() -> None:
    config = dataclasses.replace(FILES)

    with pytest.raises(AttributeError):
        config.max_lenght = 7  # type: ignore[attr-defined]  # the misspelling is the point


SEVERAL = {"news": {"files": ["a.de", "a.en"], "weight": 2, "tag": "<x>"}, "talks": ["b.tsv"]}


def test_several_training_corpora_are_read() -> None:
    config = dataclasses.replace(FILES, train=SEVERAL, temperature=2)

    assert [each.key for each in config.train_sets()] == ["data.train.news", "data.train.talks"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"news": ["a", "b", "c"]}}, "data.train.news=[a,b,c] must contain one or two"),
        ({"train": {"news": ["a.tsv", "b.tsv"]}}, "data.train.news=[a.tsv,b.tsv]: a.tsv is a file"),
        ({"train": SEVERAL, "temperature": 0.5}, "data.temperature=0.5 must be a number of at le"),
        ({"temperature": 2}, "data.temperature=2 mixes several corpora, but data.train is one"),
        (
            {"valid": {"files": ["a.tsv"], "weight": 2}},
            "data.valid.weight=2.0: only data.train has weights",
        ),
    ],
)
def test_values_that_do_not_fit_several_corpora_are_refused(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        dataclasses.replace(FILES, **values)
