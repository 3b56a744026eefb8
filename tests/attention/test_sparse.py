import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_attention import entmax_by_bisection
from torch.testing import assert_close

from seq2seq.attention import masked_entmax15, masked_softmax, masked_sparsemax

# B batch, N heads, T target length, S source length
ALPHAS = {masked_sparsemax: 2.0, masked_entmax15: 1.5}
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
}
both = pytest.mark.parametrize("normalize", ALPHAS)


def normalize_row(normalize, *scores, length=None):
    """Normalise the scores of one row."""
    lengths = torch.tensor([len(scores) if length is None else length])
    return normalize(torch.tensor([[scores]], dtype=torch.float64), lengths)[0, 0].tolist()


def project_by_supports(scores):
    """Find the nearest point of the simplex among the solutions for every set of positions."""
    best = None
    for size in range(1, len(scores) + 1):
        for support in itertools.combinations(range(len(scores)), size):
            threshold = (sum(scores[place] for place in support) - 1) / size
            point = [
                scores[place] - threshold if place in support else 0.0
                for place in range(len(scores))
            ]
            distance = sum((a - b) ** 2 for a, b in zip(point, scores, strict=True))
            if min(point) >= 0 and (best is None or distance < best[0]):
                best = distance, point
    return best[1]


def test_published_values_of_sparsemax():
    # Martins and Astudillo 2016, section 2.3: two scores t and 0 give (t + 1) / 2 in [-1, 1].
    for score in (-2.0, -1.0, -0.5, 0.0, 0.3, 1.0, 4.0):
        expected = min(max((score + 1) / 2, 0), 1)
        found = normalize_row(masked_sparsemax, score, 0.0)
        assert found == pytest.approx([expected, 1 - expected])


def test_published_values_of_entmax15():
    # Two scores t and 0: p = (t + sqrt(8 - t^2))^2 / 16 for |t| <= 2, solved by hand.
    for score in (-3.0, -2.0, -0.5, 0.0, 0.3, 1.0, 2.0, 5.0):
        inside = min(max(score, -2.0), 2.0)
        expected = (inside + (8 - inside**2) ** 0.5) ** 2 / 16
        assert normalize_row(masked_entmax15, score, 0.0) == pytest.approx([expected, 1 - expected])


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    generator = torch.Generator().manual_seed(1)
    for scale in (0.1, 0.5, 1.0, 3.0):
        scores = (scale * torch.randn(6, generator=generator)).tolist()
        assert normalize_row(masked_sparsemax, *scores) == pytest.approx(
            project_by_supports(scores)
        )


@both
def test_equal_scores_get_equal_weights(normalize):
    weights = normalize_row(normalize, 7.0, 7.0, 7.0, 9.0, length=3)

    assert weights == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


@both
def test_a_constant_added_to_all_scores_changes_nothing(normalize):
    scores = torch.randn(2, 3, 5, dtype=torch.float64)
    lengths = torch.tensor([5, 3])

    assert_close(normalize(scores + 100, lengths), normalize(scores, lengths))


@both
def test_weights_are_sparser_than_those_of_softmax_and_keep_their_order(normalize):
    scores = torch.randn(4, 50, 20, generator=torch.Generator().manual_seed(1)).double()
    lengths = torch.tensor([20, 13, 7, 1])

    weights, soft = normalize(scores, lengths), masked_softmax(scores, lengths)

    assert ((weights == 0) & (soft > 0)).float().mean() > 0.2
    assert_close(weights.amax(-1) >= soft.amax(-1) - 1e-12, torch.ones(4, 50).bool())
    order = soft.argsort(-1)
    assert (weights.gather(-1, order).diff(dim=-1) >= -1e-12).all()


@both
@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 5), (2, 3, 5)])
def test_mask_applies_to_every_head(normalize, shape):
    scores = torch.randn(2, 4, 3, 5)
    valid = torch.rand(shape) < 0.5 if shape[-1] == 5 else torch.randint(6, shape)

    weights = normalize(scores, valid)

    heads = [normalize(scores[:, head], valid) for head in range(4)]
    assert_close(weights, torch.stack(heads, dim=1))


@both
def test_error_for_a_wrong_shape_is_that_of_softmax(normalize):
    with pytest.raises(ValueError, match=r"attention: lengths of shape \(3,\) does not fit scores"):
        normalize(torch.zeros(2, 3, 5), torch.tensor([1, 2, 3]))


@both
def test_row_of_padding_only_gives_zeros_and_zero_gradient(normalize):
    scores = torch.randn(2, 3, 5, requires_grad=True)

    weights = normalize(scores, torch.tensor([0, 5]))
    weights.square().sum().backward()

    assert torch.equal(weights[0], torch.zeros(3, 5))
    assert torch.equal(scores.grad[0], torch.zeros(3, 5))
    assert scores.grad[1].abs().max() > 0


@both
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_gradient_equals_finite_differences(normalize, scale):
    generator = torch.Generator().manual_seed(1)
    scores = scale * torch.randn(3, 3, 6, generator=generator, dtype=torch.float64)
    lengths = torch.tensor([[1, 6, 2], [3, 0, 4], [6, 6, 5]])

    assert torch.autograd.gradcheck(
        lambda one: normalize(one, lengths), scores.requires_grad_(), eps=1e-7
    )


@both
def test_infinite_score_of_padding_is_ignored(normalize):
    scores = torch.tensor([[[1.0, 1.2, torch.inf]], [[1.0, 1.2, torch.nan]]], requires_grad=True)

    weights = normalize(scores, torch.tensor([2, 2]))
    weights[..., 0].sum().backward()

    expected = normalize(torch.tensor([[[1.0, 1.2]]]), torch.tensor([2]))
    assert_close(weights[..., :2], expected.expand(2, 1, 2))
    assert torch.equal(scores.grad[..., 2], torch.zeros(2, 1))


@both
def test_nan_of_a_real_position_stays_nan(normalize):
    scores = torch.tensor([[[1.0, torch.nan, 2.0]], [[1.0, 2.0, 3.0]]])

    weights = normalize(scores, torch.tensor([3, 3]))

    assert weights[0].isnan().all()
    assert weights[1].isfinite().all()


@both
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]) | st.floats(-4, 4), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    ),
    scale=st.sampled_from([0.01, 1.0, 1e4]),
    dtype=st.sampled_from(sorted(TOLERANCES, key=str)),
)
def test_weights_of_any_scores_equal_the_definition(normalize, rows, scale, dtype):
    lengths = torch.tensor([len(row) for row in rows])
    padded = [[*row, *[99.0] * (lengths.max() - len(row))] for row in rows]
    scores = (scale * torch.tensor(padded, dtype=torch.float64).unsqueeze(1)).to(dtype)
    scores.requires_grad_()

    weights = normalize(scores, lengths)
    weights.max(-1).values.sum().backward()

    assert weights.dtype == dtype
    assert scores.grad.isfinite().all()
    for length, found, row, grad in zip(
        lengths, weights.squeeze(1), scores.squeeze(1), scores.grad.squeeze(1), strict=True
    ):
        expected = entmax_by_bisection(row[:length].tolist(), alpha=ALPHAS[normalize])
        assert_close(
            found[:length].double(),
            torch.tensor(expected, dtype=torch.float64),
            atol=TOLERANCES[dtype],
            rtol=0,
        )
        assert not found[length:].any()
        assert not grad[length:].any()
