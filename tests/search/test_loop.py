import math

import numpy as np
import pytest
import tiny_search as tools
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.search.config import EarlyStopping
from seq2seq.search.loop import Ranking
from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS


def config(*, penalty=0.0, ratio=1.0, **changes):
    """Return a config without a length penalty."""
    values = {"n_best": 1, "length_penalty": penalty, "max_length_ratio": ratio, **changes}
    return tools.decoding("beam", **values)


def test_ties_go_to_the_earlier_end_then_the_better_parent_then_the_lower_id():
    end, other = [-9.0, -9.0, -9.0, 3.0, 3.0, 3.0], [-9.0, -9.0, -9.0, 9.0, 2.0, 2.0]
    model = tools.TableModel([end, other, end, end])

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=3, n_best=3))

    assert [hypothesis.ids for hypothesis in found] == [[], [4], [5]]


def test_search_stops_when_nothing_can_improve():
    model = tools.TableModel([[-9.0, -9.0, -9.0, 5.0, 0.0, 0.0]] * 20)

    search(model, *tools.pad([[4, EOS]]), config(beam_size=3, ratio=8.0))

    assert model.rows_stepped == [1]


def test_the_first_stop_ends_when_beam_size_hypotheses_are_finished():
    ends_now_or_later = [[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] * 10
    model = tools.TableModel(ends_now_or_later)
    settings = {"beam_size": 2, "penalty": 3.0, "ratio": 4.0}

    [exact] = search(model, *tools.pad([[4, EOS]]), config(**settings))
    exact_rows, model.rows_stepped = model.rows_stepped, []
    [first] = search(
        model, *tools.pad([[4, EOS]]), config(early_stopping=EarlyStopping.first, **settings)
    )

    assert model.rows_stepped == [1, 2]
    assert len(exact_rows) > 2
    assert first[0].ids == []
    assert exact[0].score > first[0].score


def test_the_first_stop_ends_without_live_hypotheses():
    least = -math.inf
    model = tools.TableModel([[least] * 5 + [0.0], [least] * 3 + [0.0, least, least]])
    settings = config(beam_size=3, n_best=3, early_stopping=EarlyStopping.first)

    [found] = search(model, *tools.pad([[4, EOS]]), settings)

    assert [hypothesis.ids for hypothesis in found] == [[5]]


LIMITS = [7, 4, 9]


@pytest.mark.parametrize("coverage_penalty", [0.0, 0.4])
@given(
    exponent=st.floats(0, 4),
    total=st.floats(-50, 0),
    lost=st.floats(0, 20),
    limit=st.sampled_from(LIMITS),
    length=st.integers(1, 9),
    attended=st.lists(st.floats(0, 3), min_size=2, max_size=2),
)
def test_no_extension_scores_above_the_bound(
    coverage_penalty, exponent, total, lost, limit, length, attended
):
    config = tools.decoding("beam", length_penalty=exponent, coverage_penalty=coverage_penalty)
    ranking = Ranking(config, np.ones((1, 2), np.bool_), np.array(LIMITS))
    ranking.attend(np.array([[attended]], np.float32), np.array([[0]]))

    bound = ranking.bounds(np.array([[total]]), np.array([limit]))
    score = ranking.scores(np.array([[total - lost]]), min(length, limit))

    assert score.item() <= bound.item()


def test_coverage_is_the_published_sum_over_real_tokens():
    config = tools.decoding("beam", coverage_penalty=0.5, length_penalty=0.0)
    ranking = Ranking(config, np.array([[True, True, True, False]]), np.array(LIMITS))
    # One row with two heads, used in two steps.
    weights = np.array([[[0.6, 0.4, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0]]], np.float32)

    for _ in range(2):
        ranking.attend(weights, np.array([[0]]))
    score = ranking.scores(np.array([[-3.0]], np.float32), length=2)

    # The third token received no attention and counts as the smallest positive number.
    least = torch.finfo(torch.float32).tiny
    expected = -3 + 0.5 * (math.log(0.8) + math.log(1.0) + math.log(least))
    assert score.item() == pytest.approx(expected, abs=1e-4)


SENTENCES = [[4, 5, EOS], [5, EOS], [4, EOS]]
VOCABULARY_SIZE = 6
EVERYTHING = 500
"""Larger than the number of outputs of the lengths that are searched here: such a beam is
exhaustive."""

OPTIONS = st.fixed_dictionaries(
    {
        "length_penalty": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        "coverage_penalty": st.sampled_from([0.0, 0.2, 1.0, 5.0]),
        "min_length": st.integers(0, 2),
        "max_length_ratio": st.sampled_from([0.7, 1.0]),
        "no_repeat_ngram": st.integers(0, 3),
    }
)
MODELS = st.builds(dict, seed=st.integers(0, 10_000), temperature=st.sampled_from([0.3, 1.0, 3.0]))


@settings(max_examples=40)
@given(
    model=MODELS,
    options=OPTIONS,
    beam_size=st.sampled_from([1, 2, 3, 4, EVERYTHING]),
    spare=st.integers(0, 3),
)
def test_exact_stopping_and_leaving_the_batch_change_no_result(model, options, beam_size, spare):
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, **model)
    n_best = max(1, beam_size - spare)
    config = tools.decoding("beam", beam_size=beam_size, n_best=n_best, **options)
    ids, mask = tools.pad(SENTENCES, extra=2)

    together = search(model, ids, mask, config)

    for source, found in zip(SENTENCES, together, strict=True):
        task = tools.Task(source, config)
        expected = tools.beam_by_definition(model, task)
        assert [tools.with_end(each) for each in found] == [output.ids for output in expected]
        for hypothesis, output in zip(found, expected, strict=True):
            assert hypothesis.score == pytest.approx(tools.score(output, config), abs=1e-4)
            assert hypothesis.log_probability == pytest.approx(output.log_probability, abs=1e-4)
