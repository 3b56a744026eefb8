"""Each corpus gets its share of an epoch."""

import numpy as np
import pytest

from seq2seq.data.files.mixing import Mixture, mix


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
