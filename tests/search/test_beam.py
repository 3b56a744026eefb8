import math

import pytest
import tiny_search as tools
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.search.beam import Ranking
from seq2seq.search.config import EarlyStopping, LengthPenaltyForm
from seq2seq.search.registry import search
from seq2seq.special_tokens import EOS

SOURCES = [[4, 5, EOS], [5, EOS], [5, 4, 4, 5, EOS], [4, EOS]]


@pytest.fixture
def config():
    """Make a config without a length penalty."""

    def make(*, penalty=0.0, ratio=1.0, **changes):
        values = {"n_best": 1, "length_penalty": penalty, "max_length_ratio": ratio, **changes}
        return tools.decoding("beam", **values)

    return make


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_beam_of_one_is_greedy(config, seed, penalty):
    model = tools.FakeModel(vocabulary_size=9, seed=seed)
    greedy = tools.decoding("greedy")

    beams = search(model, *tools.pad(SOURCES), config(beam_size=1, penalty=penalty))
    greedies = search(model, *tools.pad(SOURCES), greedy)

    for [beam], [other] in zip(beams, greedies, strict=True):
        assert tools.with_end(beam) == tools.with_end(other)
        assert beam.log_probability == other.log_probability
        torch.testing.assert_close(beam.attention_weights, other.attention_weights)


def test_ties_go_to_the_earlier_end_then_the_better_parent_then_the_lower_id(config):
    end, other = [-9.0, -9.0, -9.0, 3.0, 3.0, 3.0], [-9.0, -9.0, -9.0, 9.0, 2.0, 2.0]
    model = tools.TableModel([end, other, end, end])

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=3, n_best=3))

    assert [hypothesis.ids for hypothesis in found] == [[], [4], [5]]


def test_search_stops_when_nothing_can_improve(config):
    model = tools.TableModel([[-9.0, -9.0, -9.0, 5.0, 0.0, 0.0]] * 20)

    search(model, *tools.pad([[4, EOS]]), config(beam_size=3, ratio=8.0))

    assert model.rows_stepped == [1]


def test_the_first_stop_ends_when_beam_size_hypotheses_are_finished(config):
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


def test_the_first_stop_ends_without_live_hypotheses(config):
    model = tools.TableModel([[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] * 9)
    settings = config(beam_size=3, n_best=3, early_stopping=EarlyStopping.first)

    [found] = search(model, *tools.pad([[4, EOS]]), settings, prefixes=[[5, EOS]])

    assert [hypothesis.ids for hypothesis in found] == [[5]]


LIMITS = [7, 4, 9]


@pytest.mark.parametrize("coverage_penalty", [0.0, 0.4])
@given(
    exponent=st.floats(0, 4),
    form=st.sampled_from(LengthPenaltyForm),
    total=st.floats(-50, 0),
    lost=st.floats(0, 20),
    limit=st.sampled_from(LIMITS),
    length=st.integers(1, 9),
    attended=st.lists(st.floats(0, 3), min_size=2, max_size=2),
)
def test_no_extension_scores_above_the_bound(
    coverage_penalty, exponent, form, total, lost, limit, length, attended
):
    config = tools.decoding(
        "beam", length_penalty=exponent, length_penalty_form=form, coverage_penalty=coverage_penalty
    )
    ranking = Ranking(config, limits=LIMITS, device=torch.device("cpu"))
    grown = torch.tensor([[total - lost]], dtype=torch.float64)
    coverage = torch.tensor([[attended]])

    bound = ranking.bounds(
        torch.tensor([[total]], dtype=torch.float64), limits=torch.tensor([limit])
    )
    score = ranking.scores(grown, length=min(length, limit), coverage=coverage)

    assert score.item() <= bound.item()


def test_coverage_is_the_published_sum_over_real_tokens():
    config = tools.decoding("beam", coverage_penalty=0.5, length_penalty=0.0)
    ranking = Ranking(config, limits=LIMITS, device=torch.device("cpu"))
    mask = torch.tensor([[True, True, True, False]])
    # One row with two heads, used in two steps.
    weights = torch.tensor([[[0.6, 0.4, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0]]])

    coverage = ranking.start_coverage(mask)
    for _ in range(2):
        coverage = ranking.extend_coverage(coverage, torch.tensor([[0]]), weights)
    score = ranking.scores(torch.tensor([[-3.0]]), length=2, coverage=coverage)

    # The third token received no attention and counts as the smallest positive number.
    least = torch.finfo(torch.float32).tiny
    expected = -3 + 0.5 * (math.log(0.8) + math.log(1.0) + math.log(least))
    assert score.item() == pytest.approx(expected, abs=1e-4)
