import dataclasses

import torch
from tiny_training import corpus_overrides, tiny_config, write_corpus

from seq2seq.config.schema import load_config
from seq2seq.training.preparation import prepare_data


def test_rows_of_an_evaluation_set_are_the_lines_of_its_files(tmp_path):
    config = tiny_config(tmp_path)

    data = prepare_data(config)

    sources = (tmp_path / "a.valid").read_text().splitlines()
    assert data.valid.sources == sources
    assert data.valid.references == [line[::-1] for line in sources]
    for row, line in enumerate(sources):
        assert data.tokenizers.source.decode(data.valid.encoded.source(row).tolist()) == line


def test_tokenizers_are_trained_only_on_training_text(tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "a.valid").write_text("xyz\n" * 5)

    data = prepare_data(tiny_config(tmp_path))

    assert data.tokenizers.source.encode(["x"]) == [[1]]


def test_long_pairs_are_left_out_only_of_training(tmp_path):
    config = tiny_config(tmp_path, "data.max_length=3")

    data = prepare_data(config)

    assert 0 < len(data.train) < 22
    assert len(data.valid.encoded) == len(data.valid.sources) == 5
    assert len(data.test.encoded) == len(data.test.sources) == 3


def test_given_tokenizers_are_used(tmp_path):
    config = tiny_config(tmp_path)
    first = prepare_data(config)
    other = dataclasses.replace(config.data, cache_dir=str(tmp_path / "elsewhere"))

    again = prepare_data(dataclasses.replace(config, data=other), first.tokenizers)

    assert again.tokenizers is first.tokenizers
    assert not list((tmp_path / "elsewhere").glob("tokenizers*"))


def test_files_have_no_gold_alignments(tmp_path):
    assert prepare_data(tiny_config(tmp_path)).valid.gold is None


def test_the_grammar_has_gold_alignments_for_each_pair(tmp_path):
    config = load_config(
        "data.num_train=40",
        "data.num_valid=7",
        "data.num_test=5",
        "tokenizer=characters",
        f"data.cache_dir='{tmp_path}'",
    )

    data = prepare_data(config)

    assert data.valid.gold is not None
    assert len(data.valid.gold) == len(data.valid.sources) == 7
    for (sure, possible), source in zip(data.valid.gold, data.valid.sources, strict=True):
        assert sure == possible
        assert all(0 <= word < len(source.split()) for word, _ in sure)


def test_the_fingerprint_changes_with_the_training_text(tmp_path):
    config = tiny_config(tmp_path)
    before = prepare_data(config).fingerprint

    assert prepare_data(config).fingerprint == before
    text = (tmp_path / "a.train").read_text()
    (tmp_path / "a.train").write_text(text.replace("a", "b", 1))

    assert prepare_data(config).fingerprint != before


def test_the_same_corpus_gives_the_same_ids_from_the_cache(tmp_path):
    config = tiny_config(tmp_path, *corpus_overrides(tmp_path))

    first, second = prepare_data(config), prepare_data(config)

    assert torch.equal(torch.tensor(first.train.target(3)), torch.tensor(second.train.target(3)))
