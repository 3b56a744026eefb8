"""Corpora of data=files are mixed by their weights and marked by their tags."""

import logging

import numpy as np
import pytest
from tiny_training import tiny_config

from seq2seq.config.schema import load_config
from seq2seq.data import (
    Batches,
    CharactersConfig,
    DataConfig,
    EncodedCorpus,
    FilesConfig,
    TokenizerPair,
    encode_corpus,
    load_corpora,
    train_tokenizers,
)
from seq2seq.data.files.mixing import training_mixture
from seq2seq.data.files.tags import (
    check_tags,
    check_user_symbols,
    required_tags,
    with_tags,
)


def several(folder, **entries: str) -> FilesConfig:
    """Configure the corpora a, of 22 pairs, and b, of 5 pairs, with more keys for each."""
    pairs = {name: f"files: ['{folder}/a.{file}','{folder}/b.{file}']" for name, file in FILES}
    corpora = [f"{name}: {{{pairs[name]}{entries.get(name, '')}}}" for name, _ in FILES]
    data = tiny_config(folder, f"data.train={{{', '.join(corpora)}}}").data
    assert isinstance(data, FilesConfig)
    return data


FILES = [("large", "train"), ("small", "valid")]


def encoded(data: DataConfig) -> tuple[EncodedCorpus, TokenizerPair]:
    corpus = load_corpora(data).train
    config = CharactersConfig(name="characters", vocabulary_size=40, min_frequency=1)
    tokenizers = train_tokenizers(with_tags(config, data), corpus)
    return encode_corpus(corpus, tokenizers, data), tokenizers


def test_without_weights_an_epoch_is_that_of_the_joined_files(tmp_path):
    data = several(tmp_path)
    corpus, _ = encoded(data)

    assert corpus.part_sizes == [22, 5]
    assert training_mixture(data, corpus) is None
    for side in "ab":
        texts = [(tmp_path / f"{side}.{file}").read_text() for _, file in FILES]
        (tmp_path / f"{side}.joined").write_text("".join(texts))
    joined = tiny_config(tmp_path, f"data.train=['{tmp_path}/a.joined','{tmp_path}/b.joined']").data
    other, _ = encoded(joined)
    assert [corpus.source(i).tolist() for i in range(27)] == [
        other.source(i).tolist() for i in range(27)
    ]


def test_weights_choose_the_pairs_of_an_epoch(tmp_path, caplog):
    data = several(tmp_path, small=", weight: 4")
    corpus, _ = encoded(data)

    with caplog.at_level(logging.INFO):
        mixture = training_mixture(data, corpus)

    # 22 : 4 * 5, of 27 pairs.
    assert mixture is not None
    assert mixture.counts == (14, 13)
    config = tiny_config(tmp_path).training.batching
    batches = Batches(corpus, config=config, seed=1, rank=0, world_size=1, mixture=mixture)
    for epoch in range(3):
        rows = np.concatenate(batches.epoch(epoch))
        assert sorted(rows.tolist()) == sorted(mixture.rows(1, epoch).tolist())
        assert np.count_nonzero(rows < 22) == 14
    large, small = (f"{tmp_path}/a.{file},{tmp_path}/b.{file}" for _, file in FILES)
    assert [record.getMessage() for record in caplog.records] == [
        f"train: corpus large, {large}: 22 pairs, each taken 0.64 times an epoch",
        f"train: corpus small, {small}: 5 pairs, each taken 2.60 times an epoch",
        "train: an epoch has 27 pairs",
    ]


def test_tags_stand_before_the_sources_and_are_one_token(tmp_path):
    data = several(tmp_path, large=", tag: '<2b>'", small=", tag: '<2c>'")
    corpus, tokenizers = encoded(data)

    firsts = [int(corpus.source(row)[0]) for row in range(27)]
    assert tokenizers.source.tokens(firsts) == ["<2b>"] * 22 + ["<2c>"] * 5
    assert [len(corpus.source(row)) for row in range(27)] == [
        len(corpus.target(row)) + 1 for row in range(27)
    ]
    check_tags(data, tokenizers)


def test_a_tag_is_no_second_time_among_the_symbols(tmp_path):
    data = several(tmp_path, large=", tag: '<2b>'")
    config = tiny_config(tmp_path, "tokenizer.user_symbols=['<2b>','<z>']").tokenizer

    assert with_tags(config, data).user_symbols == ["<2b>", "<z>"]


def test_a_tag_that_the_tokenizer_would_split_is_refused(tmp_path):
    tagged = several(tmp_path, large=", tag: '<2b>'")
    _, tokenizers = encoded(several(tmp_path))

    with pytest.raises(ValueError, match=r"^data\.train\.large\.tag=<2b> is no symbol of the tok"):
        check_tags(tagged, tokenizers)


def test_symbols_that_the_tokenizers_of_a_checkpoint_lack_are_refused(tmp_path):
    _, tokenizers = encoded(several(tmp_path, large=", tag: '<2b>'"))

    check_user_symbols(
        tiny_config(tmp_path, "tokenizer.user_symbols=['<2b>']").tokenizer, tokenizers
    )
    with pytest.raises(ValueError, match=r"^tokenizer\.user_symbols: <z> is no symbol of the tok"):
        check_user_symbols(
            tiny_config(tmp_path, "tokenizer.user_symbols=['<2b>','<z>']").tokenizer, tokenizers
        )


def test_a_corpus_of_long_pairs_alone_is_refused(tmp_path):
    data = several(tmp_path)
    corpus, _ = encoded(data)
    corpus.part_sizes = [22]

    with pytest.raises(ValueError, match=r"^data\.train\.small: all pairs are longer than data\."):
        training_mixture(data, corpus)


@pytest.mark.parametrize(
    ("large", "small", "is_warned"),
    [(", tag: '<2x>'", ", tag: '<2y>'", True), (", tag: '<2x>'", "", False), ("", "", False)],
)
def test_a_set_to_score_without_a_tag_is_warned_of_if_all_corpora_have_one(
    tmp_path, caplog, large, small, is_warned
):
    data = several(tmp_path, large=large, small=small)
    _, tokenizers = encoded(data)
    caplog.clear()

    check_tags(data, tokenizers)

    expected = (
        "data.valid, data.test: no tag, although every training corpus has one (<2x>, <2y>); "
    )
    assert [each.startswith(expected) for each in caplog.messages] == [True] * is_warned


@pytest.mark.parametrize(
    ("large", "small", "expected"),
    [
        (", tag: '<2y>'", ", tag: '<2x>'", ["<2y>", "<2x>"]),
        (", tag: '<2x>'", ", tag: '<2x>'", ["<2x>"]),
        (", tag: '<2x>'", "", []),
        ("", "", []),
    ],
)
def test_tags_are_required_if_every_training_corpus_has_one(tmp_path, large, small, expected):
    assert required_tags(several(tmp_path, large=large, small=small)) == expected
    assert required_tags(load_config().data) == []
