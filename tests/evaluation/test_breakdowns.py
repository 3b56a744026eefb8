from collections import Counter

import pytest
import sacrebleu

from seq2seq.evaluation.breakdowns import (
    FREQUENCY_BINS,
    Bin,
    bleu_by_bin,
    equal_bins,
    word_scores_by_frequency,
)
from seq2seq.evaluation.significance import sentence_statistics

HYPOTHESES = ["the dog runs fast today", "a cat", "the old man sleeps in the house", "a man ran on"]
REFERENCES = ["the dog runs very fast", "a cat", "the man sleeps in the house", "a man ran off now"]


@pytest.mark.parametrize(
    ("values", "num_bins"),
    [([7], 5), ([4, 4, 4, 4], 3), (list(range(1, 101)), 5), ([1, 1, 1, 50], 4), ([2, 9], 5)],
)
def test_every_value_is_in_exactly_one_range_and_no_range_is_empty(values, num_bins):
    bins = equal_bins(values, num_bins=num_bins)

    assert len(bins) <= num_bins
    assert all(sum(each.has(value) for each in bins) == 1 for value in values)
    assert all(any(each.has(value) for value in values) for each in bins)


def test_ranges_hold_equally_many_different_values():
    bins = equal_bins(list(range(1, 101)), num_bins=5)

    assert [each.label for each in bins] == ["1-20", "21-40", "41-60", "61-80", "81-100"]


def test_frequency_ranges_cover_every_count_once():
    bins = [Bin(*each) for each in FREQUENCY_BINS]

    for count in (0, 1, 9, 10, 99, 100, 999, 1000, 10**9):
        assert sum(each.has(count) for each in bins) == 1
    assert [each.label for each in bins] == ["0", "1-9", "10-99", "100-999", "1000+"]


def test_bleu_of_a_range_is_sacrebleu_of_its_sentences():
    lengths = [3, 8, 3, 8]
    bins = [Bin(1, 5), Bin(6, 8)]

    found = bleu_by_bin(sentence_statistics(HYPOTHESES, REFERENCES), lengths, bins)

    for value, rows in zip(found, ([0, 2], [1, 3]), strict=True):
        expected = sacrebleu.corpus_bleu(
            [HYPOTHESES[row] for row in rows], [[REFERENCES[row] for row in rows]]
        )
        assert value == pytest.approx(expected.score)


def test_words_are_scored_in_the_range_of_their_training_frequency():
    bins = [Bin(0, 0), Bin(1, 1), Bin(2, 9), Bin(10, None)]

    unseen, rare, common, absent = word_scores_by_frequency(
        ["rare common rare", "common new"],
        ["rare common common", "common unseen"],
        Counter(common=3, rare=1),
        split=str.split,
        bins=bins,
    )

    assert unseen == (0.0, 1)
    assert rare == (2 * 1 / (2 + 1), 1)  # one of two is right, and one of one was wanted
    assert common == (pytest.approx(2 * 2 / (2 + 3)), 3)
    assert absent == (None, 0)
