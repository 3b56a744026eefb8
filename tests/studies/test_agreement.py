import math
from dataclasses import replace
from itertools import combinations
from random import Random
from statistics import fmean

import pytest
import torch
from tiny_study import make_group

from seq2seq.evaluation.alignment import argmax_links
from seq2seq.evaluation.measures import alignment_error_rate
from seq2seq.files.links import GoldLinks
from seq2seq.studies.agreement import (
    add_agreement,
    compare_attention,
    divergences,
    least_p_value,
    link_errors,
    mean_divergence,
    seeds_needed,
)
from seq2seq.studies.comparison import BaselineComparison

SHAPES = [(3, 4), (2, 5), (4, 2)]


def maps_around(center, *, seed, spread=0.3):
    generator = torch.Generator().manual_seed(seed)
    return [
        (each + spread * torch.randn(each.shape, generator=generator)).softmax(-1)
        for each in center
    ]


@pytest.fixture
def study():
    """Return three runs of two types, and their groups."""
    generator = torch.Generator().manual_seed(1)
    groups = []
    for label in ("dot", "additive"):
        center = [3 * torch.randn(shape, generator=generator) for shape in SHAPES]
        groups.append(make_group(label, [f"{label}-{s}" for s in range(3)]))
        for seed, run in enumerate(groups[-1].runs):
            run.maps = [each.numpy() for each in maps_around(center, seed=seed)]
    return [run for group in groups for run in group.runs], groups


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


def test_divergence_is_that_of_a_plain_loop(study):
    runs, _ = study

    found = divergences(runs)

    for one, other in combinations(runs, 2):
        expected = by_loop(one.maps, other.maps)
        assert found[frozenset((one, other))] == pytest.approx(expected, rel=1e-5)


def test_links_of_two_runs_have_the_aer_of_one_against_the_other(study):
    runs, [dot, additive] = study
    links = {run: [argmax_links(torch.tensor(each)[:-1, :-1]) for each in run.maps] for run in runs}

    found = link_errors(divergences(runs))

    for one, other in combinations(runs, 2):
        gold = [GoldLinks(sure=each, possible=each) for each in links[other]]
        expected = alignment_error_rate(links[one], gold)
        assert found[frozenset((one, other))] == pytest.approx(expected)
    assert mean_divergence(found, dot, dot) < mean_divergence(found, dot, additive)


def test_runs_with_other_tokens_or_without_attention_have_none(study):
    runs, [dot, additive] = study
    [first, second, third] = dot.runs
    first.maps = []
    second.maps = [each[1:] for each in second.maps]

    found = divergences(runs)

    assert not any(first in pair or second in pair for pair in found)
    assert mean_divergence(found, dot, additive) is None
    assert compare_attention(found, dot, additive) is None
    assert frozenset((third, additive.runs[0])) in found


@pytest.mark.parametrize("sizes", [(2, 4), (4, 4)])
def test_p_is_the_share_of_divisions_that_differ_as_much(sizes):
    draw = Random(3)
    groups = [make_group("", map(str, range(size))) for size in sizes]
    runs = [run for group in groups for run in group.runs]
    found = {frozenset(pair): draw.random() for pair in combinations(runs, 2)}

    p_value = compare_attention(found, *groups)

    def effect(one):
        sides = one, [run for run in runs if run not in one]
        within = [fmean(found[frozenset(pair)] for pair in combinations(side, 2)) for side in sides]
        return fmean(found[frozenset((a, b))] for a in sides[0] for b in sides[1]) - fmean(within)

    least = effect(groups[0].runs) - 1e-12
    divisions = combinations(runs, sizes[0])
    assert p_value == pytest.approx(fmean(effect(one) >= least for one in divisions))
    single = replace(groups[0], runs=groups[0].runs[:1])
    assert compare_attention(found, single, groups[1]) is None


def test_the_seeds_that_are_needed_make_a_significant_p_value_possible():
    for number in (1, 6, 9):
        enough = seeds_needed(number)
        too_few = enough - 1
        assert number * least_p_value(enough, enough) < 0.05
        assert number * least_p_value(too_few, too_few) >= 0.05
    assert least_p_value(3, 3) == 2 / 20  # the real division and its mirror image
    assert least_p_value(3, 4) == 1 / 35  # no mirror image has the same sizes


def test_p_values_of_attention_are_corrected_for_the_number_of_groups():
    groups = [make_group(label, [f"{label}{n}" for n in range(5)]) for label in "abc"]
    agreement = {
        frozenset((one, other)): 0.1 if one.name[0] == other.name[0] else 0.9
        for one, other in combinations([run for group in groups for run in group.runs], 2)
    }
    first, *others = [
        BaselineComparison(group=group, baseline=groups[0] if number else None, reason="")
        for number, group in enumerate(groups)
    ]

    add_agreement([first, *others], agreement, notes := [])

    assert first.attention is None
    assert [each.attention.agreement_p for each in others] == pytest.approx([2 * 2 / 252] * 2)
    assert notes == []
