"""Greedy search takes the most probable token, sampling draws from the distribution."""

import math
from collections import Counter

import pytest
import tiny_search as tools
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.runtime.kernels.operations import BLOCK, stable_max, stable_topk, stable_topk_of_sums
from seq2seq.search.searches import search
from seq2seq.special_tokens import BOS, EOS, PAD

SOURCES = [[4, 5, EOS], [6, EOS], [5, 4, 6, 6, EOS], [4, EOS]]
VOCABULARY_SIZE = 7


LIMITS = {"max_length_ratio": 2.0, "max_length_offset": 3}
GREEDY = tools.decoding("greedy", **LIMITS)


@pytest.mark.parametrize("seed", range(3))
def test_each_token_is_the_most_probable_one(seed):
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=seed)
    beam_of_one = tools.decoding("beam", beam_size=1, **LIMITS)

    found = search(model, *tools.pad(SOURCES), GREEDY)

    for source, [hypothesis] in zip(SOURCES, found, strict=True):
        [best] = tools.beam_by_definition(model, tools.Task(source, beam_of_one))
        assert tools.with_end(hypothesis) == best.ids
        assert hypothesis.score == pytest.approx(best.log_probability, abs=1e-4)


def test_equal_probabilities_go_to_the_lower_id():
    model = tools.TableModel([[0.0, -1.0, 0.0, 1.0, 2.0, 2.0, 2.0], [0, 0, 0, 9.0, 0, 0, 0]])

    [[hypothesis]] = search(model, *tools.pad([[4, EOS]]), GREEDY)

    assert hypothesis.ids == [4]


FIRST_LOGITS = [0.0, 0.7, 0.0, 0.1, 1.0, 0.4, -0.5]
"""logits of the first token; those of PAD and BOS are ignored"""
NUM_OUTPUTS = 3000


def copies(num_copies, *, token=4):
    """Return sentences with different random numbers that are equal to the model."""
    return [[token + copy * VOCABULARY_SIZE, EOS] for copy in range(num_copies)]


def first_tokens(num_draws, **changes):
    """Sample first tokens, all from one distribution, and count them."""
    model = tools.TableModel([FIRST_LOGITS, [-9.0, -9.0, -9.0, 9.0, -9.0, -9.0, -9.0]])
    config = tools.decoding("sampling", max_length_ratio=0.0, max_length_offset=1, **changes)
    found = search(model, *tools.pad(copies(num_draws)), config)
    return Counter(tools.with_end(hypothesis)[0] for [hypothesis] in found)


def distribution(temperature=1.0):
    """Return the sampling probabilities of the tokens, by the definition."""
    odds = {
        token: math.exp(logit / temperature)
        for token, logit in enumerate(FIRST_LOGITS)
        if token not in (PAD, BOS)
    }
    return {token: odd / sum(odds.values()) for token, odd in odds.items()}


def assert_drawn_from(counts, probabilities):
    """Check Pearson's statistic against its mean and four of its standard deviations."""
    num_draws = sum(counts.values())
    assert counts.keys() <= probabilities.keys()
    expected = {key: num_draws * probability for key, probability in probabilities.items()}
    statistic = sum((counts[key] - mean) ** 2 / mean for key, mean in expected.items())
    freedom = len(probabilities) - 1
    assert statistic <= freedom + 4 * math.sqrt(2 * freedom)


def test_the_frequency_of_outputs_is_their_probability():
    model = tools.TableModel([FIRST_LOGITS, FIRST_LOGITS[::-1], FIRST_LOGITS])
    model.table[:, [PAD, BOS]] = -torch.inf  # they are never sampled
    limits = {"max_length_ratio": 0.0, "max_length_offset": 3}

    found = search(model, *tools.pad(copies(NUM_OUTPUTS)), tools.decoding("sampling", **limits))
    counts = Counter(tuple(tools.with_end(hypothesis)) for [hypothesis] in found)

    all_outputs = tools.decoding("beam", beam_size=500, n_best=500, **limits)
    every = tools.beam_by_definition(model, tools.Task([4, EOS], all_outputs))
    odds = {tuple(output.ids): math.exp(output.log_probability) for output in every}
    assert sum(odds.values()) == pytest.approx(1, abs=1e-4)
    frequent = {ids: odd for ids, odd in odds.items() if NUM_OUTPUTS * odd > 5}
    rest = Counter({"rest": sum(number for ids, number in counts.items() if ids not in frequent)})
    kept = Counter({ids: number for ids, number in counts.items() if ids in frequent})
    assert len(frequent) > 20
    assert_drawn_from(kept + rest, frequent | {"rest": 1 - sum(frequent.values())})


@pytest.mark.parametrize("temperature", [0.5, 1.0, 100.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (1, 1.0), (50, 1.0), (3, 0.6), (0, 0.6)])
def test_tokens_are_drawn_after_the_temperature_then_top_k_then_top_p(temperature, top_k, top_p):
    counts = first_tokens(1000, temperature=temperature, top_k=top_k, top_p=top_p)

    odds = distribution(temperature)
    ranked = sorted(odds, key=lambda token: -odds[token])[: top_k or None]
    whole, kept, total = sum(odds[token] for token in ranked), [], 0.0
    for token in ranked:
        if total < top_p - 1e-9:
            kept.append(token)
            total += odds[token] / whole
    assert counts.keys() == set(kept)
    rest = sum(odds[token] for token in kept)
    assert_drawn_from(counts, {token: odds[token] / rest for token in kept})


@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_a_temperature_near_0_is_greedy(temperature):
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=1)

    drawn = search(model, *tools.pad(SOURCES), tools.decoding("sampling", temperature=temperature))
    greedy = search(model, *tools.pad(SOURCES), tools.decoding("greedy"))

    assert [of[0].ids for of in drawn] == [of[0].ids for of in greedy]
    assert [of[0].score for of in drawn] == [of[0].score for of in greedy]


def test_the_best_distinct_samples_are_returned_finished_ones_first():
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=1.0)
    samples = {"num_samples": 40, "max_length_ratio": 0.0, "max_length_offset": 3}

    [every] = search(
        model, *tools.pad([[4, EOS]]), tools.decoding("sampling", n_best=40, **samples)
    )
    [best] = search(model, *tools.pad([[4, EOS]]), tools.decoding("sampling", n_best=5, **samples))

    ranks = [(not hypothesis.finished, -hypothesis.score) for hypothesis in every]
    assert ranks == sorted(ranks)
    assert all(hypothesis.score == hypothesis.log_probability for hypothesis in every)
    assert len({tuple(tools.with_end(hypothesis)) for hypothesis in every}) == len(every) < 40
    assert {hypothesis.finished for hypothesis in every} == {True, False}
    assert [hypothesis.ids for hypothesis in best] == [hypothesis.ids for hypothesis in every[:5]]


def test_more_samples_contain_those_of_fewer():
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=1.0)

    few, many = (
        search(
            model, *tools.pad(SOURCES), tools.decoding("sampling", num_samples=size, n_best=size)
        )
        for size in (2, 9)
    )

    for of_few, of_many in zip(few, many, strict=True):
        ids_of_many = [tools.with_end(hypothesis) for hypothesis in of_many]
        assert all(tools.with_end(hypothesis) in ids_of_many for hypothesis in of_few)


def test_samples_depend_on_the_seed_alone_and_leave_the_global_generator():
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=2.0)
    state = torch.get_rng_state()

    drawn = [
        [of[0].ids for of in search(model, *tools.pad(copies(20)), config)]
        for config in (tools.decoding("sampling", seed=seed) for seed in (1, 1, 2))
    ]

    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.get_rng_state().equal(state)


@given(
    values=st.lists(
        st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.5]), min_size=6, max_size=6),
        min_size=1,
        max_size=3,
    ),
    k=st.integers(1, 8),
)
def test_topk_orders_equal_values_by_index(values, k):
    largest, indices = stable_topk(torch.tensor(values), k)

    for row, its_largest, its_indices in zip(
        values, largest.tolist(), indices.tolist(), strict=True
    ):
        expected = sorted(range(6), key=lambda index: (-row[index], index))[:k]
        real = [index for index in expected if row[index] > -math.inf]
        assert its_largest == [row[index] for index in expected]
        assert its_indices[: len(real)] == real


@pytest.mark.parametrize("k", [1, 5, 2 * BLOCK, 1000])
@pytest.mark.parametrize("size", [7, BLOCK, 2 * BLOCK + 7])
def test_topk_of_sums_is_the_stable_order_of_all_parts(size, k):
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(5, (9, 3, size), generator=generator).float()  # many are equal
    offsets = torch.randint(3, (9, 3), generator=generator).float()

    largest, indices = stable_topk_of_sums(values, offsets, k)

    sums = (values + offsets.unsqueeze(2)).flatten(1)
    expected, order = sums.sort(dim=1, descending=True, stable=True)
    assert largest.equal(expected[:, :k])
    assert indices.equal(order[:, :k])


@pytest.mark.parametrize("num_copies", [1, 2])
@given(values=st.lists(st.sampled_from([-math.inf, -1.0, 0.5]), min_size=1, max_size=150))
def test_max_takes_the_first_of_equal_values(num_copies, values):
    rows = torch.tensor([values, values[::-1], sorted(values)] * num_copies)

    largest, indices = stable_max(rows)

    assert largest.tolist() == [max(row) for row in rows.tolist()]
    assert indices.tolist() == [row.index(max(row)) for row in rows.tolist()]
