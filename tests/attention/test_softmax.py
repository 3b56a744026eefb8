import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2seq.attention import masked_softmax

# B batch, N heads, T target length, S source length
TOLERANCES = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def softmax_of_real(scores, mask):
    """Normalise by the definition, one row at a time."""
    weights = torch.zeros_like(scores)
    for index in torch.cartesian_prod(*map(torch.arange, scores.shape[:-1])):
        place = tuple(index.tolist())
        weights[place][mask[place]] = scores[place][mask[place]].softmax(-1)
    return weights


def test_lengths_of_sentences_apply_to_every_step():
    scores = torch.randn(2, 3, 5)

    weights = masked_softmax(scores, torch.tensor([4, 2]))

    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()
    assert_close(weights, softmax_of_real(scores, mask.unsqueeze(1).expand(2, 3, 5)))


@pytest.mark.parametrize("lengths", [[1, 6], [-1, 5]])
def test_lengths_out_of_range_are_an_error(lengths):
    with pytest.raises(ValueError, match=rf"lengths from {min(lengths)} to {max(lengths)} do not"):
        masked_softmax(torch.zeros(2, 3, 5), torch.tensor(lengths))


def test_lengths_of_steps_apply_to_one_step_each():
    scores = torch.randn(2, 3, 5)
    lengths = torch.tensor([[1, 5, 2], [3, 4, 0]])

    weights = masked_softmax(scores, lengths)

    assert_close(weights, softmax_of_real(scores, torch.arange(5) < lengths.unsqueeze(-1)))


def test_mask_of_sources_applies_to_every_step():
    scores = torch.randn(2, 3, 5)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0]]).bool()

    weights = masked_softmax(scores, mask)

    assert_close(weights, softmax_of_real(scores, mask.unsqueeze(1).expand(2, 3, 5)))


def test_mask_of_steps_applies_to_one_step_each():
    scores = torch.randn(2, 5, 5)
    causal = torch.ones(5, 5).tril().bool().expand(2, 5, 5)

    weights = masked_softmax(scores, causal)

    assert_close(weights, softmax_of_real(scores, causal))


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 5), (2, 3, 5)])
def test_mask_applies_to_every_head(shape):
    scores = torch.randn(2, 4, 3, 5)
    valid = torch.rand(shape) < 0.5 if shape[-1] == 5 else torch.randint(6, shape)

    weights = masked_softmax(scores, valid)

    heads = [masked_softmax(scores[:, head], valid) for head in range(4)]
    assert_close(weights, torch.stack(heads, dim=1))


@pytest.mark.parametrize("scores_shape", [(2, 3, 5), (2, 4, 3, 5)])
@pytest.mark.parametrize(
    "valid",
    [
        torch.tensor(3),
        torch.tensor([3]),
        torch.tensor([3, 2, 1]),
        torch.ones(2, 5, dtype=torch.long),
        torch.ones(3, 2, dtype=torch.long),
        torch.ones(5, dtype=torch.bool),
        torch.ones(1, 5, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(3, 5, dtype=torch.bool),
        torch.ones(2, 5, 3, dtype=torch.bool),
        torch.ones(2, 4, 3, 5, dtype=torch.bool),
    ],
    ids=lambda valid: f"{str(valid.dtype).removeprefix('torch.')}{tuple(valid.shape)}",
)
def test_error_for_a_wrong_shape_names_both_shapes(scores_shape, valid):
    with pytest.raises(ValueError, match=r"attention: .*\(B,\) or \(B, T\) or a mask") as error:
        masked_softmax(torch.zeros(scores_shape), valid)

    assert str(tuple(valid.shape)) in str(error.value)
    assert str(scores_shape) in str(error.value)


def test_scores_without_a_step_axis_are_an_error():
    with pytest.raises(ValueError, match=r"scores of shape \(2, 5\)"):
        masked_softmax(torch.zeros(2, 5), torch.tensor([3, 2]))


def test_row_of_padding_only_gives_zeros_and_zero_gradient():
    scores = torch.randn(2, 3, 5, requires_grad=True)

    weights = masked_softmax(scores, torch.tensor([0, 5]))
    weights.square().sum().backward()

    assert_close(weights[0], torch.zeros(3, 5))
    assert_close(scores.grad[0], torch.zeros(3, 5))
    assert scores.grad[1].abs().min() > 0


def test_gradient_equals_finite_differences():
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([[1, 5, 2], [3, 0, 4]])

    assert torch.autograd.gradcheck(lambda one: masked_softmax(one, lengths), scores)


def test_infinite_score_of_padding_is_ignored():
    scores = torch.tensor([[[1.0, 2.0, torch.inf]], [[1.0, 2.0, torch.nan]]], requires_grad=True)

    weights = masked_softmax(scores, torch.tensor([2, 2]))
    weights[..., 0].sum().backward()

    expected = torch.tensor([1.0, 2.0]).softmax(-1)
    assert_close(weights[:, 0, :2], expected.expand(2, 2))
    assert torch.equal(scores.grad[..., 2], torch.zeros(2, 1))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.tuples(*[st.integers(1, 4)] * 3, st.integers(1, 9)),
    with_heads=st.booleans(),
    per_step=st.booleans(),
    scale=st.floats(0, 1e4),
    dtype=st.sampled_from(sorted(TOLERANCES, key=str)),
    seed=st.integers(0, 2**32 - 1),
)
def test_weights_of_any_scores_are_probabilities(shape, with_heads, per_step, scale, dtype, seed):
    num_sources, _, target_length, source_length = shape
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(
        source_length + 1,
        (num_sources, target_length) if per_step else (num_sources,),
        generator=generator,
    )
    sizes = shape if with_heads else (num_sources, target_length, source_length)
    scores = (scale * (2 * torch.rand(sizes, generator=generator) - 1)).to(dtype).requires_grad_()

    weights = masked_softmax(scores, lengths)
    weights.max(-1).values.sum().backward()

    per_step_lengths = lengths if per_step else lengths.unsqueeze(1).expand(-1, target_length)
    mask = torch.arange(source_length) < per_step_lengths.unsqueeze(-1)
    mask = (mask.unsqueeze(1) if with_heads else mask).expand(sizes)
    assert weights.dtype == dtype
    assert torch.equal(weights[~mask], torch.zeros_like(weights[~mask]))
    assert torch.equal(scores.grad[~mask], torch.zeros_like(weights[~mask]))
    assert weights.min() >= 0
    assert scores.grad.isfinite().all()
    tolerance = TOLERANCES[dtype]
    assert_close(weights.double().sum(-1), mask.any(-1).double(), atol=tolerance, rtol=0)
