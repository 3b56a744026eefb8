"""The data benchmark writes a large corpus with its cache, and counts padding."""

import gzip

import pytest
from tiny_training import NUM_TRAIN, corpus_overrides, write_corpus

from benchmarks.data_speed import first_update, make_large, measure_padding
from seq2seq.config.schema import load_config
from seq2seq.data.cache import cached_tokenizers, encode_corpus
from seq2seq.data.corpus import load_corpora

NUM_LARGE = 2 * NUM_TRAIN + 5


@pytest.fixture
def large(tmp_path):
    """Return the overrides of train.py for a corpus that repeats one of 22 pairs."""
    small = tmp_path / "small"
    write_corpus(small)
    for part in ("train", "valid"):
        for ours, language in (("a", "de"), ("b", "en")):
            text = (small / f"{ours}.{part}").read_bytes()
            (small / f"{part}.{language}.gz").write_bytes(gzip.compress(text))
    return make_large(
        small, tmp_path / "large", num_pairs=NUM_LARGE, options=["tokenizer=characters"]
    )


def test_missing_corpus_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(SystemExit, match=r"^error: .*/none/train.de.gz: no such file; give the di"):
        make_large(tmp_path / "none", tmp_path / "large", num_pairs=1, options=[])

    assert list(tmp_path.iterdir()) == []


def test_the_ids_of_the_large_corpus_are_in_the_cache(tmp_path, large, monkeypatch):
    config = load_config(*large)
    train = load_corpora(config.data).train
    monkeypatch.setattr("seq2seq.data.files.TextFilesCorpus.lines", None)

    tokenizers = cached_tokenizers(config.tokenizer, train, config.data.cache_dir)
    encoded = encode_corpus(train, tokenizers, config.data)

    lines = (tmp_path / "large" / "train.de").read_text().splitlines()
    decoded = [
        tokenizers.source.decode(encoded.source_rows[row].tolist()) for row in range(len(encoded))
    ]
    assert decoded == lines
    assert len(lines) == NUM_LARGE
    assert lines[:NUM_TRAIN] == lines[NUM_TRAIN : 2 * NUM_TRAIN]


def test_padding_of_source_and_target_is_counted(tmp_path, capsys):
    write_corpus(tmp_path, num_train=2)
    (tmp_path / "a.train").write_text("abc\na\n")
    (tmp_path / "b.train").write_text("abcd\nab\n")
    sizes = ["training.batching.size=2", "training.batching.unit=sentences"]

    measure_padding([*corpus_overrides(tmp_path), "tokenizer=characters", *sizes])

    # With EOS, 2 of 2 * 4 source positions and 2 of 2 * 5 target positions are padding.
    assert "1 batches of 2 sentences: 22.2% of the positions are padding" in capsys.readouterr().out


@pytest.mark.slow
def test_the_first_update_is_timed(tmp_path):
    write_corpus(tmp_path)

    elapsed, processor, gigabytes = first_update(
        [*corpus_overrides(tmp_path), "tokenizer=characters"]
    )

    assert elapsed > 0.5
    assert processor > 0.5
    assert 0.1 < gigabytes < 2
