import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.search import BeamConfig, GreedyConfig, search
from seq2seq.search.beam import stable_topk

SOURCES = [[4, 5, EOS], [5, EOS], [5, 4, 4, 5, EOS], [4, EOS]]
VOCABULARY_SIZE = 6
EVERYTHING = 500
"""wider than the space of outputs of the lengths that are searched here"""


def config(*, beam_size: int, num_best: int = 1, penalty: float = 0.0, ratio: float = 1.0):
    return BeamConfig(
        name="beam",
        max_length_ratio=ratio,
        max_length_offset=2,
        beam_size=beam_size,
        num_best=num_best,
        length_penalty=penalty,
    )


def with_end(hypothesis):
    return [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids


def gnmt(length, exponent):
    return ((5 + length) / 6) ** exponent


def beam_by_definition(tools, model, source, settings):
    """Search without an early stop, one hypothesis at a time."""
    live, finished = [(0.0, [])], []
    limit = math.floor(settings.max_length_ratio * len(source)) + settings.max_length_offset
    for _ in range(limit):
        grown = [
            (tools.force(model, source, [*output, piece]).log_probability, [*output, piece])
            for _, output in live
            for piece in range(model.vocabulary_size)
            if piece not in (PAD, BOS)
        ]
        grown = sorted(grown, key=lambda entry: -entry[0])[: settings.beam_size]
        finished += [entry for entry in grown if entry[1][-1] == EOS]
        live = [entry for entry in grown if entry[1][-1] != EOS]

    def score(entry):
        return entry[0] / gnmt(len(entry[1]), settings.length_penalty)

    ranked = sorted(finished, key=score, reverse=True) + sorted(live, key=score, reverse=True)
    return [(output, score((total, output))) for total, output in ranked[: settings.num_best]]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_beam_of_one_is_greedy(tools, seed, penalty):
    model = tools.model(vocabulary_size=9, seed=seed)
    greedy = GreedyConfig(name="greedy", max_length_ratio=1.0, max_length_offset=2)

    beams = search(model, *tools.pad(SOURCES), config(beam_size=1, penalty=penalty))
    greedies = search(model, *tools.pad(SOURCES), greedy)

    for [beam], [other] in zip(beams, greedies, strict=True):
        assert with_end(beam) == with_end(other)
        assert beam.log_probability == other.log_probability
        torch.testing.assert_close(beam.weights, other.weights)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_the_space_is_exhaustive(tools, seed, penalty):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=seed, temperature=1.0)
    source = [4, 5, EOS]
    limit = 4

    scores = {}
    for output in tools.outputs(VOCABULARY_SIZE, limit):
        if output[-1] == EOS:
            forced = tools.force(model, source, output)
            scores[tuple(output)] = forced.log_probability / gnmt(len(output), penalty)
    expected = sorted(scores, key=lambda output: -scores[output])[:7]
    settings = config(beam_size=EVERYTHING, num_best=7, penalty=penalty, ratio=0.9)
    [found] = search(model, *tools.pad([source]), settings)

    assert [tuple(with_end(hypothesis)) for hypothesis in found] == expected
    for hypothesis, output in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(scores[output], abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beam_size=st.integers(1, 4),
    spare=st.integers(0, 3),
    penalty=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    temperature=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_early_stop_and_leaving_the_batch_change_no_result(
    tools, seed, beam_size, spare, penalty, temperature
):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=seed, temperature=temperature)
    settings = config(
        beam_size=beam_size, num_best=max(1, beam_size - spare), penalty=penalty, ratio=0.7
    )

    together = search(model, *tools.pad(SOURCES, extra=2), settings)

    for source, found in zip(SOURCES, together, strict=True):
        expected = beam_by_definition(tools, model, source, settings)
        assert [with_end(hypothesis) for hypothesis in found] == [output for output, _ in expected]
        for hypothesis, (_, score) in zip(found, expected, strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_score_and_weights_are_those_of_forced_decoding(tools, penalty):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=5)

    found = search(
        model, *tools.pad(SOURCES), config(beam_size=4, num_best=4, penalty=penalty, ratio=2.0)
    )

    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            output = with_end(hypothesis)
            forced = tools.force(model, source, output)
            score = forced.log_probability / gnmt(len(output), penalty)
            assert hypothesis.log_probability == pytest.approx(forced.log_probability, abs=1e-4)
            assert hypothesis.score == pytest.approx(score, abs=1e-4)
            torch.testing.assert_close(hypothesis.weights, forced.weights)


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_gives_what_its_sentences_give_alone_and_padding_changes_nothing(tools, seed):
    model = tools.model(vocabulary_size=9, seed=seed)
    settings = config(beam_size=3, num_best=2, penalty=0.8, ratio=3.0)

    together = search(model, *tools.pad(SOURCES, extra=3), settings)
    alone = [search(model, *tools.pad([source]), settings)[0] for source in SOURCES]

    for found, expected in zip(together, alone, strict=True):
        assert [each.ids for each in found] == [each.ids for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            torch.testing.assert_close(one.weights, other.weights)


def test_hypotheses_come_best_first_and_differ(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=1)

    [found] = search(model, *tools.pad([[4, 5, EOS]]), config(beam_size=6, num_best=5))

    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 5
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_equal_scores_go_to_the_earlier_end_then_the_better_parent_then_the_lower_id(tools):
    end, other = [-9.0, -9.0, -9.0, 3.0, 3.0, 3.0], [-9.0, -9.0, -9.0, 9.0, 2.0, 2.0]
    model = tools.table_model([end, other, end, end])

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=3, num_best=3))

    assert [hypothesis.ids for hypothesis in found] == [[], [4], [5]]


def test_where_too_few_end_live_hypotheses_follow_marked(tools):
    table = [[-9.0, -9.0, -9.0, 0.0, 2.0, 1.0]] * 3 + [[-9.0, -9.0, -9.0, 0.0, 2.0, 1.9]]
    rarely_ends = tools.table_model(table)

    settings = config(beam_size=2, num_best=2)
    [found] = search(rarely_ends, *tools.pad([[4, EOS]]), settings)

    assert [hypothesis.ids for hypothesis in found] == [[4, 4, 4, 4], [4, 4, 4, 5]]
    assert not any(hypothesis.finished for hypothesis in found)


def test_a_finished_hypothesis_stands_before_a_better_one_that_was_cut(tools):
    model = tools.table_model([[-9.0, -9.0, -9.0, 0.0, 1.0, -9.0]] + [[-9, -9, -9, -9, 9.0, 0]] * 3)

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=2, num_best=2))

    assert [hypothesis.finished for hypothesis in found] == [True, False]
    assert found[0].score < found[1].score


def test_search_stops_when_nothing_can_improve(tools):
    model = tools.table_model([[-9.0, -9.0, -9.0, 5.0, 0.0, 0.0]] * 20)

    search(model, *tools.pad([[4, EOS]]), config(beam_size=3, ratio=8.0))

    assert model.rows_stepped == [1]


def test_a_length_penalty_keeps_a_search_going_that_may_yet_improve(tools):
    ends_late = tools.table_model(
        [[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] + [[-9, -9, -9, 5, -9, -9]] * 3
    )

    short = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2))
    long = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2, penalty=1.0))

    assert short[0][0].ids == []
    assert long[0][0].ids == [4]


def test_finished_sentences_leave_the_batch(tools):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=0)
    settings = config(beam_size=3, ratio=2.0)

    search(model, *tools.pad(SOURCES), settings)
    together, model.rows_stepped = model.rows_stepped, []
    for source in SOURCES:
        search(model, *tools.pad([source]), settings)

    assert together[-1] < together[1]
    assert sum(together) == sum(model.rows_stepped)


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


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("beam_size", {"beam_size": 0, "num_best": 0}),
        ("num_best", {"beam_size": 2, "num_best": 0}),
        ("num_best", {"beam_size": 2, "num_best": 3}),
        ("length_penalty", {"beam_size": 2, "penalty": -0.5}),
        ("length_penalty", {"beam_size": 2, "penalty": float("nan")}),
        ("max_length_ratio", {"beam_size": 2, "ratio": -1.0}),
    ],
)
def test_a_beam_that_makes_no_sense_is_refused_by_name(key, values):
    with pytest.raises(ValueError, match=f"decoding.{key}="):
        config(**values)


def test_penalty_has_the_published_values():
    settings = config(beam_size=1, penalty=0.6)

    values = [settings.penalty(length) for length in range(1, 6)]

    assert values == pytest.approx([1, 1.0969, 1.1884, 1.2754, 1.3587], abs=1e-4)
