import math
from itertools import combinations
from random import Random
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
import torch

from seq2seq.evaluation.alignment import argmax_links
from seq2seq.evaluation.measures import alignment_error_rate
from seq2seq.files.links import GoldLinks
from seq2seq.studies.agreement import (
    compare_agreement,
    compare_attention,
    divergences,
    least_p_value,
    link_errors,
    mean_between,
    seeds_needed,
)

SHAPES = [(3, 4), (2, 5), (4, 2)]


def maps_around(center, *, seed, spread=0.3):
    generator = torch.Generator().manual_seed(seed)
    return [
        (each + spread * torch.randn(each.shape, generator=generator)).softmax(-1)
        for each in center
    ]


@pytest.fixture
def maps():
    """Return the attention of three runs of each of two types."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(2):
        center = [3 * torch.randn(shape, generator=generator) for shape in SHAPES]
        found += [[each.numpy() for each in maps_around(center, seed=s)] for s in range(3)]
    return found


def by_loop(one, other):
    """Return the divergence from its definition, a weight at a time."""
    total, count = 0.0, 0
    for a, b in zip(one, other, strict=True):
        for p, q in zip(a.tolist(), b.tolist(), strict=True):
            middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
            for side in (p, q):
                pairs = zip(side, middle, strict=True)
                total += sum(x * math.log2(x / m) for x, m in pairs if x > 0) / 2
            count += 1
    return total / count


def test_divergence_is_that_of_a_plain_loop(maps):
    found = divergences(maps)

    for one, other in combinations(range(6), 2):
        expected = by_loop(maps[one], maps[other])
        assert found[one, other] == found[other, one] == pytest.approx(expected, rel=1e-5)


def test_links_of_two_runs_have_the_aer_of_one_against_the_other(maps):
    links = [[argmax_links(torch.tensor(each)[:-1, :-1]) for each in of_run] for of_run in maps]

    found = link_errors(maps)

    for one, other in combinations(range(6), 2):
        gold = [GoldLinks(sure=each, possible=each) for each in links[other]]
        expected = alignment_error_rate(links[one], gold)
        assert found[one, other] == pytest.approx(expected)
    assert mean_between(found, [0, 1, 2], [0, 1, 2]) < mean_between(found, [0, 1, 2], [3, 4, 5])


def test_runs_with_other_tokens_or_without_attention_have_none(maps):
    maps[0] = []
    maps[1] = [each[1:] for each in maps[1]]

    found = divergences(maps)

    assert np.isnan(found[:2]).all()
    assert math.isnan(mean_between(found, [0, 1, 2], [3, 4, 5]))
    assert compare_attention(found, range(3), range(3, 6)) is None
    assert found[2, 3] > 0


@pytest.mark.parametrize("sizes", [(2, 4), (4, 4)])
def test_p_is_the_share_of_divisions_that_differ_as_much(sizes):
    draw = Random(3)
    runs = range(sum(sizes))
    found = np.full((len(runs), len(runs)), np.nan)
    for one, other in combinations(runs, 2):
        found[one, other] = found[other, one] = draw.random()

    p_value = compare_attention(found, runs[: sizes[0]], runs[sizes[0] :])

    def effect(one):
        sides = one, [run for run in runs if run not in one]
        within = [fmean(found[pair] for pair in combinations(side, 2)) for side in sides]
        return fmean(found[a, b] for a in sides[0] for b in sides[1]) - fmean(within)

    least = effect(tuple(range(sizes[0]))) - 1e-12
    divisions = combinations(runs, sizes[0])
    assert p_value == pytest.approx(fmean(effect(one) >= least for one in divisions))
    assert compare_attention(found, runs[:1], runs[1:]) is None


def test_the_seeds_that_are_needed_make_a_significant_p_value_possible():
    for number in (1, 6, 9):
        enough = seeds_needed(number)
        too_few = enough - 1
        assert number * least_p_value(enough, enough) < 0.05
        assert number * least_p_value(too_few, too_few) >= 0.05
    assert least_p_value(3, 3) == 2 / 20  # the real division and its mirror image
    assert least_p_value(3, 4) == 1 / 35  # no mirror image has the same sizes


@pytest.mark.parametrize("num_runs", [5, 2])
def test_p_values_of_attention_are_corrected_for_the_number_of_groups(num_runs):
    """With too few seeds there is none, but the number of seeds that are needed."""
    places = {label: [num_runs * n + k for k in range(num_runs)] for n, label in enumerate("abc")}
    distances = np.full((3 * num_runs, 3 * num_runs), 0.9)
    for runs in places.values():
        distances[np.ix_(runs, runs)] = 0.1

    found = compare_agreement(
        distances, distances / 2, places, pd.Series({"a": "", "b": "a", "c": "a"}), notes := []
    )

    assert list(found.index) == ["b", "c"]
    assert found["agreement_within"].tolist() == pytest.approx([0.1] * 2)
    assert found["link_aer_between"].tolist() == pytest.approx([0.45] * 2)
    if num_runs == 5:
        assert found["agreement_p"].tolist() == pytest.approx([2 * 2 / 252] * 2)
        assert notes == []
    else:
        assert found["agreement_p"].isna().all()
        assert found["agreement_seeds_needed"].tolist() == [5, 5]
        [note] = notes
        assert "for 2 comparisons, p can be below 0.05 only with 5 or more seeds" in note
