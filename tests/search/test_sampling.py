import math
from collections import Counter

import pytest
import torch

from seq2seq.search import search
from seq2seq.special_tokens import BOS, EOS, PAD

SOURCES = [[4, 5, EOS], [6, EOS], [5, 4, 6, 6, EOS], [4, EOS]]
VOCABULARY_SIZE = 7
FIRST_LOGITS = [0.0, 0.7, 0.0, 0.1, 1.0, 0.4, -0.5]
"""logits of the first token; those of PAD and BOS are ignored"""


def with_end(hypothesis):
    return [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids


def copies(num_copies, *, token=4):
    """Return sentences with different random numbers that are equal to the model."""
    return [[token + copy * VOCABULARY_SIZE, EOS] for copy in range(num_copies)]


def first_tokens(tools, num_draws, **changes):
    """Sample first tokens, all from one distribution, and count them."""
    model = tools.table_model([FIRST_LOGITS, [-9.0, -9.0, -9.0, 9.0, -9.0, -9.0, -9.0]])
    config = tools.decoding("sampling", max_length_ratio=0.0, max_length_offset=1, **changes)
    found = search(model, *tools.pad(copies(num_draws)), config)
    return Counter(with_end(hypothesis)[0] for [hypothesis] in found)


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


def test_the_frequency_of_outputs_is_their_probability(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=3, temperature=2.0)
    config = tools.decoding("sampling", max_length_ratio=0.0, max_length_offset=3)

    found = search(model, *tools.pad(copies(6000)), config)
    counts = Counter(tuple(with_end(hypothesis)) for [hypothesis] in found)

    every = tools.outputs(model, tools.task([4, EOS], config))
    odds = {tuple(output.ids): math.exp(output.log_probability) for output in every}
    # PAD and BOS are never sampled, so the other tokens share their probability.
    odds = {ids: odd * shared(model, tools, ids) for ids, odd in odds.items()}
    assert sum(odds.values()) == pytest.approx(1, abs=1e-4)
    frequent = {ids: odd for ids, odd in odds.items() if 6000 * odd > 5}
    rest = Counter({"rest": sum(number for ids, number in counts.items() if ids not in frequent)})
    kept = Counter({ids: number for ids, number in counts.items() if ids in frequent})
    assert len(frequent) > 20
    assert_drawn_from(kept + rest, frequent | {"rest": 1 - sum(frequent.values())})


def shared(model, tools, output):
    """Return the factor by which leaving out PAD and BOS raises a probability."""
    factor = 1.0
    for length in range(len(output)):
        before = output[:length]
        total = sum(
            math.exp(tools.score_known(model, [4, EOS], [*before, token]).by_token[-1])
            for token in range(VOCABULARY_SIZE)
            if token not in (PAD, BOS)
        )
        factor /= total
    return factor


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_temperature_divides_logits(tools, temperature):
    counts = first_tokens(tools, 4000, temperature=temperature)

    assert_drawn_from(counts, distribution(temperature))


@pytest.mark.parametrize("top_k", [1, 2, 3, 5, 50])
def test_top_k_samples_from_k_tokens_in_proportion(tools, top_k):
    counts = first_tokens(tools, 2000, top_k=top_k)

    probabilities = distribution()
    kept = sorted(probabilities, key=lambda token: -probabilities[token])[:top_k]
    total = sum(probabilities[token] for token in kept)
    assert counts.keys() == set(kept)
    assert_drawn_from(counts, {token: probabilities[token] / total for token in kept})


@pytest.mark.parametrize("top_p", [0.05, 0.4, 0.6, 0.8, 0.94, 1.0])
def test_top_p_samples_from_the_fewest_tokens_that_reach_it(tools, top_p):
    counts = first_tokens(tools, 2000, top_p=top_p)

    probabilities = distribution()
    kept, total = [], 0.0
    for token in sorted(probabilities, key=lambda token: -probabilities[token]):
        if total < top_p - 1e-9:
            kept.append(token)
            total += probabilities[token]
    assert counts.keys() == set(kept)
    assert_drawn_from(counts, {token: probabilities[token] / total for token in kept})


def test_the_order_is_temperature_then_top_k_then_top_p(tools):
    # Nearly uniform: 2 of 3 tokens reach 0.6 with top_k=3; without it, 3 of 5 are needed.
    flat = distribution(100.0)
    most = sorted(flat, key=lambda token: -flat[token])

    both = first_tokens(tools, 500, temperature=100.0, top_k=3, top_p=0.6)
    alone = first_tokens(tools, 500, temperature=100.0, top_p=0.6)

    assert both.keys() == set(most[:2])
    assert alone.keys() == set(most[:3])


def test_equal_probabilities_at_the_border_go_to_the_lower_id(tools):
    model = tools.table_model([[0.0, -1.0, 0.0, 1.0, 2.0, 2.0, 2.0]])
    limit = {"max_length_ratio": 0.0, "max_length_offset": 1}

    found = search(model, *tools.pad(copies(60)), tools.decoding("sampling", top_k=2, **limit))

    assert {tuple(hypothesis.ids) for [hypothesis] in found} == {(4,), (5,)}


@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_a_temperature_near_0_is_greedy(tools, temperature):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=1)

    drawn = search(model, *tools.pad(SOURCES), tools.decoding("sampling", temperature=temperature))
    greedy = search(model, *tools.pad(SOURCES), tools.decoding("greedy"))

    assert [of[0].ids for of in drawn] == [of[0].ids for of in greedy]
    assert [of[0].score for of in drawn] == [of[0].score for of in greedy]


def test_the_temperature_changes_neither_scores_nor_attention_weights(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=3)
    config = tools.decoding("sampling", temperature=3.0, top_p=0.9, num_samples=5, n_best=5)

    found = search(model, *tools.pad(SOURCES), config)

    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) > 1
        for hypothesis in hypotheses:
            known = tools.score_known(model, source, with_end(hypothesis))
            assert hypothesis.score == hypothesis.log_probability
            assert hypothesis.score == pytest.approx(known.log_probability, abs=1e-4)
            assert hypothesis.token_log_probabilities == pytest.approx(known.by_token, abs=1e-4)
            torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


def test_the_best_distinct_samples_are_returned_finished_ones_first(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=1.0)
    samples = {"num_samples": 40, "max_length_ratio": 0.0, "max_length_offset": 3}

    [every] = search(
        model, *tools.pad([[4, EOS]]), tools.decoding("sampling", n_best=40, **samples)
    )
    [best] = search(model, *tools.pad([[4, EOS]]), tools.decoding("sampling", n_best=5, **samples))

    ranks = [(not hypothesis.finished, -hypothesis.score) for hypothesis in every]
    assert ranks == sorted(ranks)
    assert len({tuple(with_end(hypothesis)) for hypothesis in every}) == len(every) < 40
    assert {hypothesis.finished for hypothesis in every} == {True, False}
    assert [hypothesis.ids for hypothesis in best] == [hypothesis.ids for hypothesis in every[:5]]


def test_more_samples_contain_those_of_fewer(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=1.0)

    few, many = (
        search(
            model, *tools.pad(SOURCES), tools.decoding("sampling", num_samples=size, n_best=size)
        )
        for size in (2, 9)
    )

    for of_few, of_many in zip(few, many, strict=True):
        ids_of_many = [with_end(hypothesis) for hypothesis in of_many]
        assert all(with_end(hypothesis) in ids_of_many for hypothesis in of_few)


def test_samples_depend_on_the_seed_alone(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=4, temperature=2.0)

    drawn = [
        [of[0].ids for of in search(model, *tools.pad(copies(20)), config)]
        for config in (tools.decoding("sampling", seed=seed) for seed in (1, 1, 2))
    ]

    assert drawn[0] == drawn[1] != drawn[2]


def test_sampling_does_not_use_the_global_generator(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=4)
    torch.manual_seed(5)
    expected = torch.rand(1)

    torch.manual_seed(5)
    search(model, *tools.pad(SOURCES), tools.decoding("sampling"))

    assert torch.rand(1) == expected


def test_a_sentence_leaves_the_batch_when_all_of_its_samples_have_ended(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=0)
    config = tools.decoding("sampling", num_samples=3, n_best=3, max_length_ratio=2.0)

    found = search(model, *tools.pad(SOURCES), config)

    longest = [max(len(with_end(hypothesis)) for hypothesis in of) for of in found]
    assert len(set(longest)) > 1
    assert sum(model.rows_stepped) == 3 * sum(longest)
