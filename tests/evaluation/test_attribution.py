import math
from itertools import combinations

import numpy as np
import pytest

from seq2seq.evaluation.attribution import Attribution, kendall_tau


def brute_force(one, other):
    """Return tau-b from the numbers of pairs of each kind."""
    concordant = discordant = only_one = only_other = 0
    for i, j in combinations(range(len(one)), 2):
        order = (one[i] - one[j]) * (other[i] - other[j])
        concordant += order > 0
        discordant += order < 0
        only_other += one[i] == one[j] and other[i] != other[j]
        only_one += one[i] != one[j] and other[i] == other[j]
    both = concordant + discordant
    size = math.sqrt((both + only_one) * (both + only_other))
    return (concordant - discordant) / size if size else math.nan


def test_tau_without_ties_is_that_of_pairs_counted_by_hand():
    # 5 of the 6 pairs have the same order.
    tau = kendall_tau(np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 3.0, 2.0, 4.0]))

    assert tau == pytest.approx(4 / 6)
    assert kendall_tau(np.array([1.0, 2.0]), np.array([5.0, 4.0])) == -1


def test_a_tie_on_one_side_shortens_the_other_scale():
    # (1, 2) is a tie on one side; the two other pairs have the same order.
    tau = kendall_tau(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))

    assert tau == pytest.approx(2 / math.sqrt(2 * 3))


@pytest.mark.parametrize("largest", [1, 2, 9])
def test_tau_with_ties_equals_its_definition(largest):
    random = np.random.default_rng(largest)
    for size in range(1, 8):
        for _ in range(20):
            one, other = random.integers(0, largest, (2, size), endpoint=True).astype(float)
            expected = pytest.approx(brute_force(one, other), nan_ok=True)
            assert kendall_tau(one, other) == expected


def test_nothing_to_rank_gives_no_tau():
    for one in ([1.0, 1.0, 1.0], [math.nan] * 3):
        assert math.isnan(kendall_tau(np.array(one), np.array([1.0, 2.0, 3.0])))


def test_magnitudes_are_correlated_and_differences_below_fp32_are_ties():
    attribution = Attribution(
        source_words=["a", "b", "c"],
        target_words=["x", "y"],
        attention=np.array([[0.1, 0.2, 0.7], [1 / 3, 1 / 3 + 1e-8, 1 / 3]]),
        erasure=np.array([[0.5, -2.0, -3.0], [1.0, 2.0, 3.0]]),
        gradient=np.array([[3.0, 2.0, -1.0], [1.0, -2.0, 3.0]]),
    )

    np.testing.assert_allclose(attribution.tau_erasure, [1, np.nan])
    np.testing.assert_allclose(attribution.tau_gradient, [-1, np.nan])
    np.testing.assert_allclose(attribution.tau_methods, [-1, 1])
