import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.search import LengthPenaltyForm
from seq2seq.search.ranking import build_ranking

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
    tools, coverage_penalty, exponent, form, total, lost, limit, length, attended
):
    config = tools.decoding(
        "beam",
        length_penalty=exponent,
        length_penalty_form=form,
        coverage_penalty=coverage_penalty,
    )
    ranking = build_ranking(config, limits=LIMITS, device=torch.device("cpu"))
    grown = torch.tensor([[total - lost]], dtype=torch.float64)
    coverage = torch.tensor([[attended]])

    bound = ranking.bounds(
        torch.tensor([[total]], dtype=torch.float64), limits=torch.tensor([limit])
    )
    score = ranking.scores(grown, length=min(length, limit), coverage=coverage)

    assert score.item() <= bound.item()


def test_coverage_is_the_published_sum_over_real_tokens(tools):
    config = tools.decoding("beam", coverage_penalty=0.5, length_penalty=0.0)
    ranking = build_ranking(config, limits=LIMITS, device=torch.device("cpu"))
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
