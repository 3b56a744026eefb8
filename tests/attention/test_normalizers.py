import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_attention import BY_LOOP, entmax_by_bisection
from torch.testing import assert_close

from seq2seq.attention.normalizers import (
    NORMALIZERS,
    Normalizer,
    masked_entmax15,
    masked_softmax,
    masked_sparsemax,
)

# B batch, N heads, T target length, S source length
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
ALPHAS = {masked_sparsemax: 2.0, masked_entmax15: 1.5}
every_normalizer = pytest.mark.parametrize("normalize", NORMALIZERS.values())
both = pytest.mark.parametrize("normalize", ALPHAS)


@pytest.mark.parametrize("lengths", [[1, 6], [-1, 5]])
def test_lengths_out_of_range_are_an_error(lengths):
    with pytest.raises(ValueError, match=rf"lengths from {min(lengths)} to {max(lengths)} do not"):
        masked_softmax(torch.zeros(2, 3, 5), torch.tensor(lengths))


@every_normalizer
@pytest.mark.parametrize("scores_shape", [(2, 3, 5), (2, 4, 3, 5)])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(torch.long, shape) for shape in ((), (1,), (3,), (2, 5), (3, 2))]
    + [(torch.bool, shape) for shape in ((5,), (1, 5), (2, 3), (3, 5), (2, 5, 3), (2, 4, 3, 5))],
)
def test_error_for_a_wrong_shape_names_both_shapes(normalize, scores_shape, dtype, shape):
    with pytest.raises(ValueError, match=r"attention: .*\(B,\) or \(B, T\) or a mask") as error:
        normalize(torch.zeros(scores_shape), torch.ones(shape, dtype=dtype))

    assert str(shape) in str(error.value)
    assert str(scores_shape) in str(error.value)


@every_normalizer
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 9.0, 1e4])
def test_padding_changes_no_bit_of_sparse_weights_and_rounding_at_most_of_softmax(
    normalize, dtype, scale
):
    generator = torch.Generator().manual_seed(1)
    row = scale * torch.randn(3, 1, 7, generator=generator, dtype=torch.float64)
    lowest = torch.finfo(dtype).min
    row[1, 0] = torch.tensor([lowest, lowest, 0, lowest, 0, lowest, lowest])  # the lowest number
    row[2, 0] = lowest
    scores = row.to(dtype)
    lengths = torch.tensor([7, 7, 7])

    weights = normalize(scores, lengths)

    assert_close(weights.double().sum(-1), torch.ones(3, 1).double(), atol=2e-2, rtol=0)
    for padding in (1, 40, 400):
        for filled in (0.0, lowest, torch.inf, torch.nan):
            padded = torch.cat((scores, scores.new_full((3, 1, padding), filled)), dim=-1)
            found = normalize(padded, lengths)
            atol = TOLERANCES[dtype] if normalize is masked_softmax else 0
            assert_close(found[..., :7], weights, atol=atol, rtol=0)
            assert not found[..., 7:].any()


@every_normalizer
def test_weights_under_autocast_are_in_single_precision(normalize):
    scores = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    halved = scores.bfloat16().requires_grad_()
    lengths = torch.tensor([5, 3])

    with torch.autocast("cpu", torch.bfloat16):
        weights = normalize(halved, lengths)
        weights[..., 0].sum().backward()

    assert weights.dtype == torch.float32
    assert_close(weights, normalize(halved.detach().float(), lengths))
    assert halved.grad.dtype == torch.bfloat16


@every_normalizer
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_gradient_equals_finite_differences(normalize, scale):
    generator = torch.Generator().manual_seed(1)
    scores = scale * torch.randn(3, 3, 6, generator=generator, dtype=torch.float64)
    lengths = torch.tensor([[1, 6, 2], [3, 0, 4], [6, 6, 5]])

    assert torch.autograd.gradcheck(
        lambda one: normalize(one, lengths), scores.requires_grad_(), eps=1e-7
    )


@both
@pytest.mark.parametrize("scale", [0.001, 1.0, 30.0])
def test_long_rows_in_single_precision_equal_the_definition(normalize, scale):
    row = scale * torch.randn(2000, generator=torch.Generator().manual_seed(3))
    expected = torch.tensor(entmax_by_bisection(row.tolist(), alpha=ALPHAS[normalize]))

    weights = normalize(row.view(1, 1, -1), torch.tensor([2000])).flatten()

    assert_close(weights, expected, atol=1e-6, rtol=0)
    assert weights.double().sum().item() == pytest.approx(1, abs=3e-6)
    assert not weights[expected == 0].any()


@both
def test_nan_of_a_real_position_stays_nan(normalize):
    scores = torch.tensor([[[1.0, torch.nan, 2.0]], [[1.0, 2.0, 3.0]]])

    weights = normalize(scores, torch.tensor([3, 3]))

    assert weights[0].isnan().all()
    assert weights[1].isfinite().all()


@every_normalizer
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
    by_loop = next(BY_LOOP[kind] for kind in Normalizer if NORMALIZERS[kind] is normalize)
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
        expected = by_loop(row[:length].tolist())
        assert_close(
            found[:length].double(),
            torch.tensor(expected, dtype=torch.float64),
            atol=TOLERANCES[dtype],
            rtol=0,
        )
        assert not found[length:].any()
        assert not grad[length:].any()
