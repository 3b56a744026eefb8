"""Batches have each pair once, in an order given by the seed, with little padding."""

import logging
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_training import two_corpora

from seq2seq.data.batching import (
    Batches,
    BatchingConfig,
    BatchUnit,
    EncodedCorpus,
    IdRows,
    Mixture,
    Numbers,
    TokenLinks,
    batches_by_length,
    collate,
    link_tokens,
    make_batch,
    mix,
    training_mixture,
)
from seq2seq.data.cache import encode_corpus
from seq2seq.data.config import CharactersConfig, FilesConfig
from seq2seq.data.corpus import load_corpora
from seq2seq.data.tokenizers.ruled import train_tokenizers
from seq2seq.special_tokens import BOS, EOS, PAD

SETTINGS = settings(max_examples=25, database=None)
SOURCE = [[10, 11], [12, 13, 14, 15], [], [16]]
TARGET = [[20, 21, 22], [23], [24, 25], []]


def corpus_of(source: list[list[int]], target: list[list[int]]) -> EncodedCorpus:
    # Every second pair of the text was left out.
    return EncodedCorpus(IdRows.of(source), IdRows.of(target), np.arange(len(source)) * 2)


def corpus_of_lengths(source_lengths: list[int], target_lengths: list[int]) -> EncodedCorpus:
    return corpus_of([[5] * n for n in source_lengths], [[6] * n for n in target_lengths])


def random_corpus(num_pairs: int) -> EncodedCorpus:
    """Return pairs with lengths like those of real captions."""
    generator = np.random.default_rng(3)
    target = 3 + generator.poisson(11, size=num_pairs)
    source = np.maximum(1, target + generator.integers(-4, 5, size=num_pairs))
    return corpus_of_lengths(source.tolist(), target.tolist())


def batches_of(
    encoded: EncodedCorpus,
    *,
    size: int,
    unit: BatchUnit = BatchUnit.tokens,
    seed: int = 1,
    process: tuple[int, int] = (0, 1),
) -> Batches:
    config = BatchingConfig(size=size, unit=unit)
    rank, world_size = process
    return Batches(encoded, config=config, seed=seed, rank=rank, world_size=world_size)


def as_lists(batches: list[Numbers]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def padding_share(masks: list[torch.Tensor]) -> float:
    return 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)


def cost(encoded: EncodedCorpus, rows: Numbers) -> int:
    return len(rows) * (int(encoded.target_rows.lengths(rows).max()) + 1)


def test_rows_are_padded_and_end_with_eos_and_masks_are_true_before_padding():
    batch = collate(corpus_of(SOURCE, TARGET), np.array([1, 0, 2]))

    assert batch.source_ids.tolist() == [
        [12, 13, 14, 15, EOS],
        [10, 11, EOS, PAD, PAD],
        [EOS, PAD, PAD, PAD, PAD],
    ]
    assert batch.target_ids.tolist() == [[23, EOS, PAD, PAD], [20, 21, 22, EOS], [24, 25, EOS, PAD]]
    assert batch.previous_ids.tolist() == [
        [BOS, 23, PAD, PAD],
        [BOS, 20, 21, 22],
        [BOS, 24, 25, PAD],
    ]
    assert torch.equal(batch.source_mask, batch.source_ids != PAD)
    assert torch.equal(batch.target_mask, batch.target_ids != PAD)
    assert batch.indices.tolist() == [2, 0, 4]  # positions in the text
    assert batch.num_target_tokens == 9
    assert batch.guide is None
    assert batch.to("meta").guide is None
    made = make_batch(*([side[row] for row in (1, 0, 2)] for side in (SOURCE, TARGET)))
    assert torch.equal(made.source_ids, batch.source_ids)
    assert torch.equal(made.target_ids, batch.target_ids)


@SETTINGS
@given(
    target_lengths=st.lists(st.integers(0, 30), min_size=4, max_size=40),
    size=st.integers(1, 60),
    unit=st.sampled_from(BatchUnit),
    world_size=st.sampled_from([1, 2, 4]),
)
def test_every_row_is_seen_once_in_batches_within_the_limit_shared_by_all_processes(
    target_lengths, size, unit, world_size
):
    encoded = corpus_of_lengths([1] * len(target_lengths), target_lengths)

    parts = [
        batches_of(encoded, size=size, unit=unit, process=(rank, world_size)).epoch(2)
        for rank in range(world_size)
    ]

    rows = [row for part in parts for share in part for row in share.tolist()]
    assert sorted(rows) == list(range(len(encoded)))
    for shares in zip(*parts, strict=True):
        lengths = [len(share) for share in shares]
        assert min(lengths) > 0
        assert max(lengths) - min(lengths) <= 1
    for batch in parts[0] if world_size == 1 else ():  # more processes merge small batches
        cost_of_batch = cost(encoded, batch) if unit is BatchUnit.tokens else len(batch)
        assert cost_of_batch <= size or len(batch) == 1


def test_a_batch_takes_the_next_pair_when_it_fits():
    encoded = corpus_of_lengths([1] * 7, [1, 1, 1, 3, 3, 3, 3])

    epoch = batches_of(encoded, size=8).epoch(0)

    # Widths 2 2 2 4 4 4 4: three times 2 fits and four times 4 does not.
    assert sorted(len(batch) for batch in epoch) == [2, 2, 3]


def test_batches_by_tokens_have_little_padding():
    encoded = random_corpus(5000)

    batches = [collate(encoded, rows) for rows in batches_of(encoded, size=1000).epoch(0)]

    assert padding_share([batch.target_mask for batch in batches]) < 0.02
    assert padding_share([batch.source_mask for batch in batches]) < 0.07


def test_pools_as_small_as_a_batch_mix_the_lengths(monkeypatch):
    monkeypatch.setattr("seq2seq.data.batching._POOL", 50)
    encoded = random_corpus(500)

    epoch = batches_of(encoded, size=50, unit=BatchUnit.sentences).epoch(0)

    assert padding_share([collate(encoded, rows).target_mask for rows in epoch]) > 0.2


def test_the_order_depends_on_seed_and_epoch_alone():
    encoded = random_corpus(300)
    batches = batches_of(encoded, size=100)

    first, second = as_lists(batches.epoch(0)), as_lists(batches.epoch(1))
    of_other_seed = as_lists(batches_of(encoded, size=100, seed=2).epoch(0))

    assert as_lists(batches.epoch(0)) == as_lists(batches_of(encoded, size=100).epoch(0)) == first
    for left, right in [(first, second), (first, of_other_seed), (second, of_other_seed)]:
        assert {frozenset(rows) for rows in left} != {frozenset(rows) for rows in right}
    longest = [int(encoded.target_rows.lengths(np.array(rows)).max()) for rows in first]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))  # they are mixed


def test_a_small_batch_is_merged_with_one_of_similar_length():
    encoded = corpus_of_lengths([1] * 5, [1, 1, 8, 20, 21])

    epoch = batches_of(encoded, size=21, process=(0, 2)).epoch(0)
    other = batches_of(encoded, size=21, process=(1, 2)).epoch(0)

    together = {
        frozenset([*mine.tolist(), *theirs.tolist()])
        for mine, theirs in zip(epoch, other, strict=True)
    }
    assert together == {frozenset([0, 1]), frozenset([2, 3, 4])}


def test_more_processes_than_pairs_are_refused():
    with pytest.raises(ValueError, match="3 pairs cannot be divided among 4 processes"):
        batches_of(corpus_of_lengths([1] * 3, [1] * 3), size=9, process=(0, 4))

    batches_of(corpus_of_lengths([1] * 4, [1] * 4), size=9, process=(0, 4))  # a pair for each


def test_batches_by_length_go_from_long_to_short_sources():
    encoded = corpus_of_lengths([3, 1, 4, 1, 5], [2, 2, 2, 3, 2])

    assert as_lists(batches_by_length(encoded, 2)) == [[4, 2], [0, 3], [1]]


@pytest.mark.parametrize(("sources", "targets"), [([], []), ([[5]], []), ([[5]], [[5], [6]])])
def test_a_batch_needs_one_target_for_each_source(sources, targets):
    with pytest.raises(ValueError, match=r"not enough values|is shorter|is longer"):
        make_batch(sources, targets)


ROWS = [[(0, 1), (0, 2), (2, 0)], [], [(1, 3)], [(0, 0), (1, 1), (1, 2), (1, 3)]]
"""(target token, source token) of four pairs"""


@pytest.mark.parametrize(
    ("links", "source_words", "target_words", "linked_tokens", "num_lost"),
    [
        # Every token of a word is linked to every token of the other.
        ({(1, 0)}, [0, 1, 1, 2], [0, 0, 0, 1], {(t, s) for t in (0, 1, 2) for s in (1, 2)}, 0),
        ({(0, 1), (2, 1)}, [0, 1, 2, 2], [0, 1], {(1, 0), (1, 2), (1, 3)}, 0),
        ({(1, 0), (3, 0), (0, 5)}, [0, 2], [0], set(), 3),  # words without tokens
        ({(0, 0)}, [], [0], set(), 1),
        ({(0, 0)}, [0], [], set(), 1),
    ],
)
def test_links_between_words_become_links_between_their_tokens(
    links, source_words, target_words, linked_tokens, num_lost
):
    tokens, found_lost = link_tokens(links, source_words, target_words)

    assert (set(map(tuple, tokens.tolist())), found_lost) == (linked_tokens, num_lost)


@pytest.mark.parametrize("rows", [[0], [1], [3, 1, 0], [2, 2], [1, 1]])
def test_the_guide_of_a_batch_shares_one_equally_among_the_linked_tokens(rows):
    links = TokenLinks.of(list(chain.from_iterable(pairs)) for pairs in ROWS)

    batch = collate(corpus_of_lengths([5] * 4, [4] * 4), np.array(rows), links=links)

    expected = torch.zeros(len(rows), 5, 6)  # 0 at EOS
    for place, row in enumerate(rows):
        for target, source in ROWS[row]:
            share = sum(1 for other, _ in ROWS[row] if other == target)
            expected[place, target, source] = 1 / share
    torch.testing.assert_close(batch.guide, expected)
    assert {tensor.device.type for tensor in batch.to("meta")} == {"meta"}


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


def test_the_largest_remainder_is_rounded_up_and_each_corpus_keeps_a_pair():
    assert mix((5, 5), (1, 2), temperature=1).counts == (3, 7)
    assert mix((5, 5), (1e300, 1e-300), temperature=1).counts == (9, 1)


def test_an_epoch_takes_whole_copies_and_a_rest_that_seed_and_epoch_choose():
    mixture = Mixture(sizes=(40, 50, 30), counts=(100, 20, 0))
    rows = mixture.rows(1, 0)

    counts = np.bincount(rows, minlength=120)
    assert sorted(counts[:40]) == [2] * 20 + [3] * 20
    assert sorted(counts[40:90]) == [0] * 30 + [1] * 20
    assert counts[90:].tolist() == [0] * 30
    assert mixture.rows(1, 0).tolist() == rows.tolist()
    others = {str(mixture.rows(*each).tolist()) for each in [(1, 0), (1, 1), (2, 0)]}
    assert len(others) == 3


def encoded(data: FilesConfig) -> EncodedCorpus:
    corpus = load_corpora(data).train
    config = CharactersConfig(name="characters", vocabulary_size=40, min_frequency=1)
    return encode_corpus(corpus, train_tokenizers(config, corpus), data)


def test_without_weights_an_epoch_takes_the_files_as_they_are(tmp_path):
    data = two_corpora(tmp_path)
    corpus = encoded(data)

    assert corpus.part_sizes == [22, 5]
    assert training_mixture(data, corpus) is None
    corpus.part_sizes = [22]
    with pytest.raises(ValueError, match=r"^data\.train\.small: all pairs are longer than data\."):
        training_mixture(data, corpus)


def test_weights_choose_the_pairs_of_an_epoch(tmp_path, caplog):
    data = two_corpora(tmp_path, small={"weight": 4})
    corpus = encoded(data)

    with caplog.at_level(logging.INFO):
        mixture = training_mixture(data, corpus)

    # 22 : 4 * 5, of 27 pairs.
    assert mixture is not None
    assert mixture.counts == (14, 13)
    batches = replace(batches_of(corpus, size=20), mixture=mixture)
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
