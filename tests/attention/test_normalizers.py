import itertools
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_attention import (
    attend,
    attention_config,
    entmax_by_bisection,
    tiny_attention,
    tiny_sources,
)
from torch.testing import assert_close

from seq2seq.attention import (
    CausalSelfAttention,
    DotConfig,
    MultiHeadConfig,
    NoAttentionConfig,
    Normalizer,
    SelfAttention,
    UniformConfig,
    masked_entmax15,
    masked_softmax,
    masked_sparsemax,
)
from seq2seq.attention.normalizers import NORMALIZERS

# B batch, N heads, T target length, S source length
TOLERANCES = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
every_normalizer = pytest.mark.parametrize(
    "normalize", [masked_softmax, masked_sparsemax, masked_entmax15]
)


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


@every_normalizer
@pytest.mark.parametrize("shape", [(), (5,), (2, 5), (2, 2, 2, 2, 5)])
def test_scores_with_another_number_of_axes_are_an_error(normalize, shape):
    message = rf"attention: scores of shape {re.escape(str(shape))} must have shape \(B, T, S\) or"
    with pytest.raises(ValueError, match=message):
        normalize(torch.zeros(shape), torch.tensor([3, 2]))


@every_normalizer
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 9.0, 1e4])
def test_padding_changes_no_bit_of_sparse_weights_and_rounding_at_most_of_softmax(
    normalize, dtype, scale
):
    row = scale * torch.randn(3, 1, 7, generator=torch.Generator().manual_seed(1))
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
@pytest.mark.parametrize("length", [2, 5])
def test_row_of_infinitely_low_scores_is_nan_with_and_without_padding(normalize, length):
    weights = normalize(torch.full((1, 1, length), -torch.inf), torch.tensor([2]))

    assert weights[..., :2].isnan().all()
    assert not weights[..., 2:].any()


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


@every_normalizer
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


@every_normalizer
def test_row_of_padding_only_gives_zeros_and_zero_gradient(normalize):
    scores = torch.randn(2, 3, 5, requires_grad=True)

    weights = normalize(scores, torch.tensor([0, 5]))
    weights.square().sum().backward()

    assert torch.equal(weights[0], torch.zeros(3, 5))
    assert torch.equal(scores.grad[0], torch.zeros(3, 5))
    assert scores.grad[1].abs().max() > 0


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
@pytest.mark.parametrize("scale", [0.001, 0.1, 1.0, 30.0])
def test_long_rows_in_single_precision_equal_the_definition(normalize, scale):
    row = scale * torch.randn(5000, generator=torch.Generator().manual_seed(3))
    expected = torch.tensor(entmax_by_bisection(row.tolist(), alpha=ALPHAS[normalize]))

    weights = normalize(row.view(1, 1, -1), torch.tensor([5000])).flatten()

    assert_close(weights, expected, atol=1e-6, rtol=0)
    assert weights.double().sum().item() == pytest.approx(1, abs=3e-6)
    assert not weights[expected == 0].any()


@both
def test_scores_beyond_the_threshold_get_exactly_no_weight(normalize):
    # With one score ahead of the others by 1 / (alpha - 1), all weight is its own.
    assert torch.equal(
        normalize(torch.tensor([[[9.0, 0.0, 0.0], [2.0, 0.0, -5.0]]]), torch.tensor([3])),
        torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]),
    )


@every_normalizer
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


SPARSE = [each for each in Normalizer if each is not Normalizer.softmax]


def test_every_normalizer_has_a_function_and_softmax_is_the_default():
    assert NORMALIZERS.keys() == set(Normalizer)
    assert DotConfig().normalizer is Normalizer.softmax


@pytest.mark.parametrize("normalizer", SPARSE)
@pytest.mark.parametrize("config_type", [NoAttentionConfig, UniformConfig])
def test_a_type_without_scores_refuses_a_sparse_normalizer(config_type, normalizer):
    message = (
        rf"attention\.normalizer={normalizer.name} changes nothing with "
        rf"attention={config_type().name}, which .* or attention\.normalizer=softmax"
    )
    with pytest.raises(ValueError, match=message):
        config_type(normalizer=normalizer)


@pytest.mark.parametrize("normalizer", Normalizer)
def test_each_head_is_normalised_by_itself(normalizer):
    config = attention_config("multihead")
    config.normalizer = normalizer
    attention, sources = tiny_attention(config), tiny_sources(config)

    _, weights = attend(attention, sources)

    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    scores = attention.score(sources.query, memory.keys)
    for head, scores_of_head in zip(weights.unbind(1), scores.unbind(1), strict=True):
        assert torch.equal(head, NORMALIZERS[normalizer](scores_of_head, sources.mask))


@pytest.mark.parametrize("normalizer", Normalizer)
@pytest.mark.parametrize("kind", [SelfAttention, CausalSelfAttention])
def test_attention_within_a_sequence_gives_one_context_with_and_without_weights(kind, normalizer):
    torch.manual_seed(1)
    module = kind(MultiHeadConfig(size=8, num_heads=2, normalizer=normalizer)).double()
    states, lengths = 3 * torch.randn(3, 5, 8).double(), torch.tensor([5, 2, 3])

    attended = module(states, lengths, need_weights=True)

    torch.testing.assert_close(module(states, lengths).context, attended.context)
    real = torch.arange(5) < lengths[:, None, None, None]
    if kind is SelfAttention and normalizer is not Normalizer.softmax:
        assert (attended.weights == 0).masked_select(real.expand_as(attended.weights)).any()
