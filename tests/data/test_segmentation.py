"""Segmentations are drawn anew for each epoch, from the seed and the number of the epoch alone."""

import queue
import time
from dataclasses import replace
from unittest.mock import Mock, call

import numpy as np
import pytest
from tiny_data import list_corpus, shared, unigram_config

from seq2seq.data import batching
from seq2seq.data.batching import Batches, BatchingConfig, BatchUnit, EncodedCorpus, SampledCorpus
from seq2seq.data.cache import encode_corpus
from seq2seq.data.config import DataConfig, Normalization
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.ruled import plain_tokenizer, train_tokenizers
from seq2seq.data.tokenizers.sentencepiece import SentencePieceTokenizer
from seq2seq.text.rules import normalize

WORDS = ["hund", "haus", "blau", "neben", "sch\u00f6n", "\u00fcber", "hundeleben"]
PAIRS = [(f"{one} {two}", f"{two.upper()}  {one}.") for one in WORDS for two in WORDS]
PAIRS.insert(7, ("zu lang " * 6, "kurz"))
SEED = 3
CORPUS = list_corpus(PAIRS)
NORMALIZED = unigram_config(vocabulary_size=80, joint=True, normalization=Normalization.nfc)
CONFIGS = {
    "unigram": replace(NORMALIZED, sampling_alpha=0.02),
    "bpe": replace(NORMALIZED, name="bpe", sampling_alpha=0.5),
}
TOKENIZERS = {name: train_tokenizers(config, CORPUS) for name, config in CONFIGS.items()}


@pytest.fixture(params=CONFIGS)
def name(request):
    return request.param


@pytest.fixture
def data(tmp_path):
    cache = str(tmp_path / "cache")
    return DataConfig(**shared(cache_dir=cache, max_length=20))


def sampled(
    name: str,
    data: DataConfig,
    *,
    corpus: Corpus = CORPUS,
    seed: int = SEED,
    tokenizers: TokenizerPair | None = None,
) -> SampledCorpus:
    tokenizers = tokenizers or TOKENIZERS[name]
    encoded = encode_corpus(corpus, tokenizers, data)
    return SampledCorpus(encoded, corpus, tokenizers, config=CONFIGS[name], seed=seed)


def ids(encoded: EncodedCorpus) -> list[tuple[list[int], list[int]]]:
    rows = zip(encoded.source_rows, encoded.target_rows, strict=True)
    return [(source.tolist(), target.tolist()) for source, target in rows]


def test_every_segmentation_has_the_text_of_its_pair(name, data):
    corpus = sampled(name, data)
    source, target = TOKENIZERS[name]
    kept = [tuple(map(normalize, PAIRS[i])) for i in corpus.epoch(0).indices]

    assert len(kept) == len(corpus) == len(PAIRS) - 1
    for number in range(2):
        assert [(source.decode(s), target.decode(t)) for s, t in ids(corpus.epoch(number))] == kept


def test_epochs_and_seeds_differ_and_repeat(name, data):
    corpus, other = sampled(name, data), sampled(name, data, seed=4)
    plain = ids(encode_corpus(CORPUS, TOKENIZERS[name], data))
    first, second = ids(corpus.epoch(0)), ids(corpus.epoch(1))
    different = ids(other.epoch(0))

    for one, two in ((first, second), (first, different), (first, plain), (second, plain)):
        changed = sum(a != b for a, b in zip(one, two, strict=True))
        assert changed > len(corpus) / 2
    assert ids(corpus.epoch(0)) == first
    assert ids(sampled(name, data).epoch(1)) == second


def test_source_and_target_of_one_text_are_drawn_independently(name, data):
    corpus = list_corpus((source, source) for source, _ in PAIRS)
    both = TokenizerPair(*[TOKENIZERS[name].source] * 2)

    drawn = ids(sampled(name, data, corpus=corpus, tokenizers=both).epoch(0))

    assert sum(source != target for source, target in drawn) > len(drawn) / 2


def test_threads_and_other_draws_change_nothing(name, data):
    expected = [ids(sampled(name, data).epoch(number)) for number in range(3)]
    source = plain_tokenizer(TOKENIZERS[name].source)
    assert isinstance(source, SentencePieceTokenizer)
    corpora = [sampled(name, data) for _ in range(3)]
    found = []

    for number in range(3):
        source.sample(["hundeleben"] * 3, seed=number, alpha=0.3)
        found.append([ids(corpus.epoch(number)) for corpus in corpora])

    assert found == [[each] * 3 for each in expected]


def test_an_epoch_is_drawn_once_and_the_next_one_in_advance(name, data, monkeypatch):
    corpus = sampled(name, data)
    sample = Mock(side_effect=corpus._sample)
    monkeypatch.setattr(corpus, "_sample", sample)

    for number in (2, 2, 3, 3, 4, 9, 9):
        corpus.epoch(number)
    corpus._epochs[10].result()

    assert sample.call_args_list == [call(number) for number in (2, 3, 4, 5, 9, 10)]


def test_a_closed_corpus_stops_drawing(data, monkeypatch):
    monkeypatch.setattr(batching, "_BLOCK", 10)
    corpus, calls = sampled("bpe", data), queue.SimpleQueue[int]()
    corpus.epoch(0)
    corpus._epochs[1].result()

    def sample(self: SentencePieceTokenizer, lines: list[str], **_: object) -> list[list[int]]:
        calls.put(len(lines))
        while not corpus._closed:
            time.sleep(0.001)
        return [[5]] * len(lines)

    monkeypatch.setattr(SentencePieceTokenizer, "sample", sample)
    corpus.epoch(1)
    calls.get(timeout=60)  # the next epoch has begun

    corpus.close()

    assert calls.empty()


def test_a_text_that_lost_pairs_is_refused(data):
    lines = list(CORPUS)
    corpus = sampled("bpe", data, corpus=replace(CORPUS, lines=lambda: iter(lines)))
    corpus.epoch(0)
    corpus.epoch(1)
    del lines[-1]

    with pytest.raises(ValueError, match="train: the text has fewer pairs than at the start"):
        corpus.epoch(8)


def test_batches_fit_the_segmentations_of_their_epoch(name, data):
    corpus, size = sampled(name, data), 60
    config = BatchingConfig(size=size, unit=BatchUnit.tokens)
    batches = Batches(corpus, config=config, seed=1, rank=0, world_size=1)

    for number in range(2):
        lengths = corpus.epoch(number).target_rows.lengths()
        epoch = batches.epoch(number)
        assert sorted(np.concatenate(epoch).tolist()) == list(range(len(corpus)))
        assert all(len(rows) * (lengths[rows].max() + 1) <= size for rows in epoch)
