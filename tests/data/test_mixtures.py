import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_data import BASE
from tiny_training import tiny_config

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
from seq2seq.data.mixtures import (
    Mixture,
    check_tags,
    check_user_symbols,
    mix,
    required_tags,
    training_mixture,
    with_tags,
)


@pytest.mark.parametrize(
    ("sizes", "weights", "temperature"),
    [
        ((900, 100), (1, 1), 5),
        ((900, 100, 7), (1, 3, 0.5), 1),
        ((160_000, 29_000, 500), (1, 1, 2), 3.7),
    ],
)
def test_shares_follow_the_formula(sizes, weights, temperature):
    scores = [w * n ** (1 / temperature) for n, w in zip(sizes, weights, strict=True)]
    expected = [sum(sizes) * score / sum(scores) for score in scores]

    counts = mix(sizes, weights, temperature=temperature).counts

    assert sum(counts) == sum(sizes)
    assert np.abs(np.subtract(counts, expected)).max() < 1


@pytest.mark.parametrize("weight", [1, 0.1, 7])
@pytest.mark.parametrize("sizes", [(3, 5), (1, 1, 1), (164_604, 29_000, 3), (10**9, 7)])
def test_equal_weights_take_each_pair_once(sizes, weight):
    assert mix(sizes, [weight] * len(sizes), temperature=1).counts == sizes


def test_extreme_weights_leave_each_corpus_a_pair():
    assert mix((5, 5), (1e300, 1e-300), temperature=1).counts == (9, 1)


def test_an_epoch_takes_whole_copies_and_a_rest_without_repetition():
    mixture = Mixture(sizes=(40, 50, 30), counts=(100, 20, 0))
    rows = mixture.rows(1, 0)

    counts = np.bincount(rows, minlength=120)
    assert len(rows) == 120
    assert sorted(counts[:40]) == [2] * 20 + [3] * 20
    assert sorted(counts[40:90]) == [0] * 30 + [1] * 20
    assert counts[90:].tolist() == [0] * 30


def test_rows_depend_on_seed_and_epoch_alone():
    mixture = Mixture(sizes=(40, 50), counts=(70, 20))

    assert mixture.rows(3, 5).tolist() == mixture.rows(3, 5).tolist()
    others = {str(mixture.rows(*each).tolist()) for each in [(3, 5), (3, 6), (4, 5)]}
    assert len(others) == 3


def test_over_many_epochs_every_pair_of_a_corpus_is_taken_equally_often():
    mixture = Mixture(sizes=(6, 4), counts=(9, 1))

    counts = sum(np.bincount(mixture.rows(1, epoch), minlength=10) for epoch in range(2000))

    # 2,000 draws of a half and of a quarter have standard deviations of 22 and 19.
    assert np.abs(counts[:6] - 3000).max() < 110
    assert np.abs(counts[6:] - 500).max() < 95


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Return the configuration of a corpus of 22 pairs for training and 5 for validation."""
    return tiny_config(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def several(config, tmp_path):
    """Return a function that configures both corpora for training, with more keys for each."""

    def configure(**entries: dict[str, object]) -> FilesConfig:
        sets = {"large": config.data.train, "small": config.data.valid}
        train = {name: {"files": files, **entries.get(name, {})} for name, files in sets.items()}
        return replace(config.data, train=train, cache_dir=str(tmp_path))

    return configure


def encoded(data: DataConfig) -> tuple[EncodedCorpus, TokenizerPair]:
    corpus = load_corpora(data).train
    config = CharactersConfig(name="characters", vocabulary_size=40, min_frequency=1)
    tokenizers = train_tokenizers(with_tags(config, data), corpus)
    return encode_corpus(corpus, tokenizers, data), tokenizers


def test_without_weights_an_epoch_takes_the_files_as_they_are(several, tmp_path):
    data = several()
    corpus, _ = encoded(data)

    assert corpus.part_sizes == [22, 5]
    assert training_mixture(data, corpus) is None
    sides = [each.paths for each in data.train_sets()]
    joined = [tmp_path / "a", tmp_path / "b"]
    for path, files in zip(joined, zip(*sides, strict=True), strict=True):
        path.write_text("".join(Path(file).read_text() for file in files))
    other, _ = encoded(replace(data, train=[str(path) for path in joined]))
    assert [corpus.source(i).tolist() for i in range(27)] == [
        other.source(i).tolist() for i in range(27)
    ]


def test_weights_choose_the_pairs_of_an_epoch(several, config, caplog):
    data = several(small={"weight": 4})
    corpus, _ = encoded(data)

    with caplog.at_level(logging.INFO):
        mixture = training_mixture(data, corpus)

    # 22 : 4 * 5, of 27 pairs.
    assert mixture is not None
    assert mixture.counts == (14, 13)
    size = config.training.batching
    batches = Batches(corpus, config=size, seed=1, rank=0, world_size=1, mixture=mixture)
    for epoch in range(3):
        rows = np.concatenate(batches.epoch(epoch))
        assert sorted(rows.tolist()) == sorted(mixture.rows(1, epoch).tolist())
        assert np.count_nonzero(rows < 22) == 14
    large, small = (",".join(each.paths) for each in data.train_sets())
    assert [record.getMessage() for record in caplog.records] == [
        f"train: corpus large, {large}: 22 pairs, each taken 0.64 times an epoch",
        f"train: corpus small, {small}: 5 pairs, each taken 2.60 times an epoch",
        "train: an epoch has 27 pairs",
    ]


def test_tags_stand_before_the_sources_and_are_one_token(several):
    data = several(large={"tag": "<2b>"}, small={"tag": "<2c>"})
    corpus, tokenizers = encoded(data)

    firsts = [int(corpus.source(row)[0]) for row in range(27)]
    assert tokenizers.source.tokens(firsts) == ["<2b>"] * 22 + ["<2c>"] * 5
    assert [len(corpus.source(row)) for row in range(27)] == [
        len(corpus.target(row)) + 1 for row in range(27)
    ]
    check_tags(data, tokenizers)


def test_a_tag_is_no_second_time_among_the_symbols(several, config):
    tokenizer = replace(config.tokenizer, user_symbols=["<2b>", "<z>"])

    assert with_tags(tokenizer, several(large={"tag": "<2b>"})).user_symbols == ["<2b>", "<z>"]


def test_tags_and_symbols_that_the_tokenizers_would_split_are_refused(several, config):
    _, tokenizers = encoded(several(large={"tag": "<2b>"}))

    check_user_symbols(replace(config.tokenizer, user_symbols=["<2b>"]), tokenizers)
    with pytest.raises(ValueError, match=r"^tokenizer\.user_symbols: <z> is not a symbol of"):
        check_user_symbols(replace(config.tokenizer, user_symbols=["<2b>", "<z>"]), tokenizers)
    with pytest.raises(ValueError, match=r"^data\.train\.small\.tag=<z> is not a symbol of"):
        check_tags(several(large={"tag": "<2b>"}, small={"tag": "<z>"}), tokenizers)


def test_a_corpus_of_long_pairs_alone_is_refused(several):
    data = several()
    corpus, _ = encoded(data)
    corpus.part_sizes = [22]

    with pytest.raises(ValueError, match=r"^data\.train\.small: all pairs are longer than data\."):
        training_mixture(data, corpus)


@pytest.mark.parametrize(
    ("large", "small", "required"),
    [
        ({"tag": "<2y>"}, {"tag": "<2x>"}, ["<2y>", "<2x>"]),
        ({"tag": "<2x>"}, {"tag": "<2x>"}, ["<2x>"]),
        ({"tag": "<2x>"}, {}, []),
        ({}, {}, []),
    ],
)
def test_tags_are_required_if_every_training_corpus_has_one(
    several, caplog, large, small, required
):
    data = several(large=large, small=small)
    _, tokenizers = encoded(data)
    caplog.clear()

    check_tags(data, tokenizers)

    assert required_tags(data) == required
    expected = (
        "data.valid, data.test: no tag, although every training corpus has one "
        f"({', '.join(required)}); "
    )
    assert [each.startswith(expected) for each in caplog.messages] == [True] * bool(required)


def test_other_corpora_require_no_tags():
    assert required_tags(BASE) == []
