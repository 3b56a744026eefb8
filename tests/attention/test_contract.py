import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import VARIANTS, attention_sizes, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention import attention_config_types, build_attention

# B batch, N heads, T target length, S source length, M key size, C context size
every_type = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
NAMES = sorted(attention_config_types())
LOW_PRECISION = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def attend(attention, sources):
    return attention(sources.query, attention.prepare(sources.states, sources.mask))


@every_type
def test_shapes_are_those_of_the_contract(config):
    attention, sources = tiny_attention(config), tiny_sources(config)

    context, weights = attend(attention, sources)

    assert context.shape == (3, 4, attention.context_size)
    assert weights.shape == (3, attention.num_heads, 4, 5)
    assert context.dtype == weights.dtype == torch.float64


@every_type
def test_weights_of_padding_are_exactly_zero_and_the_others_sum_to_one(config):
    attention, sources = tiny_attention(config), tiny_sources(config)

    _, weights = attend(attention, sources)

    real = sources.mask[:, None, None].expand_as(weights)
    assert torch.equal(weights[~real], torch.zeros_like(weights[~real]))
    assert (weights[real] > 0).all()
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@every_type
def test_padding_is_neither_seen_nor_given_a_gradient(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    states = sources.states.requires_grad_()
    context, weights = attend(attention, sources)
    (context.square().sum() + weights.square().sum() + 0 * states.sum()).backward()

    garbage = torch.where(sources.mask.unsqueeze(-1), states, 1e3 * torch.randn_like(states))
    seen = attend(attention, sources._replace(states=garbage))

    assert torch.equal(seen[0], context)
    assert torch.equal(seen[1], weights)
    if attention.num_heads > 0:
        assert torch.equal(states.grad[~sources.mask], torch.zeros_like(states[~sources.mask]))
        assert (states.grad[sources.mask] != 0).any(-1).all()


@every_type
def test_more_padding_changes_nothing(config):
    attention = tiny_attention(config, dtype=torch.float32)
    sources = tiny_sources(config, dtype=torch.float32)

    wider = sources._replace(
        states=torch.nn.functional.pad(sources.states, (0, 0, 0, 7), value=9.0),
        mask=torch.nn.functional.pad(sources.mask, (0, 7)),
    )
    context, weights = attend(attention, sources)
    wide_context, wide_weights = attend(attention, wider)

    assert_close(wide_context, context, atol=1e-6, rtol=0)
    assert_close(wide_weights[..., :5], weights, atol=1e-6, rtol=0)
    assert torch.equal(wide_weights[..., 5:], torch.zeros_like(wide_weights[..., 5:]))


@every_type
def test_source_of_nothing_but_padding_gives_zeros_and_no_nan(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    inputs = (sources.query.requires_grad_(), sources.states.requires_grad_())
    mask = sources.mask.clone()
    mask[1] = False

    context, weights = attend(attention, sources._replace(mask=mask))
    (context.sum() + weights.square().sum() + sum(part.sum() for part in inputs)).backward()

    assert torch.equal(context[1], torch.zeros_like(context[1]))
    assert torch.equal(weights[1], torch.zeros_like(weights[1]))
    for part in (*inputs, *attention.parameters()):
        assert part.grad is None or part.grad.isfinite().all()
    assert_close(inputs[0].grad[1], torch.ones_like(inputs[0][1]))
    assert_close(inputs[1].grad[1], torch.ones_like(inputs[1][1]))


@every_type
def test_permuted_source_permutes_the_weights_and_keeps_the_context(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    order = torch.tensor([3, 0, 4, 2, 1])

    context, weights = attend(attention, sources)
    permuted = sources._replace(states=sources.states[:, order], mask=sources.mask[:, order])
    permuted_context, permuted_weights = attend(attention, permuted)

    assert_close(permuted_weights, weights[..., order])
    assert_close(permuted_context, context)


@every_type
def test_sentences_are_independent_of_their_neighbours(config):
    attention, sources = tiny_attention(config), tiny_sources(config)

    context, weights = attend(attention, sources)

    for row in range(3):
        alone = attend(attention, type(sources)(*(part[row : row + 1] for part in sources)))
        assert_close(alone[0], context[row : row + 1])
        assert_close(alone[1], weights[row : row + 1])


@every_type
def test_steps_one_at_a_time_equal_all_at_once(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    memory = attention.prepare(sources.states, sources.mask)

    context, weights = attention(sources.query, memory)
    steps = [attention(query, memory) for query in sources.query.split(1, dim=1)]

    assert_close(torch.cat([step[0] for step in steps], dim=1), context)
    assert_close(torch.cat([step[1] for step in steps], dim=2), weights)


@every_type
def test_gradients_are_those_of_differences(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    query = sources.query[:2, :2].detach().requires_grad_()
    states = sources.states[:2, :3].detach().requires_grad_()
    parameters = tuple(attention.parameters())

    def outputs(query, states, *_):
        return attention(query, attention.prepare(states, sources.mask[:2, :3]))

    assert torch.autograd.gradcheck(outputs, (query, states, *parameters), fast_mode=True)


@every_type
def test_nothing_is_stored_on_the_module(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    before = [dict(vars(module)) for module in attention.modules()]
    parameters = {name: tensor.clone() for name, tensor in attention.state_dict().items()}

    attend(attention, sources)

    assert [dict(vars(module)) for module in attention.modules()] == before
    assert_close(dict(attention.state_dict()), parameters, atol=0, rtol=0)


@every_type
def test_dropout_acts_on_the_context_in_training_only(config):
    attention = tiny_attention(dataclasses.replace(config, dropout=0.6))
    sources = tiny_sources(config)
    expected_context, expected_weights = attend(tiny_attention(config), sources)

    drawn_context, drawn_weights = attend(attention.train(), sources)
    context, weights = attend(attention.eval(), sources)

    assert_close(context, expected_context)
    assert_close(weights, expected_weights)
    assert_close(drawn_weights, expected_weights)
    assert attention.num_heads == 0 or not torch.allclose(drawn_context, expected_context)


@every_type
def test_published_values_of_equal_states_hold_whatever_the_query(config):
    attention = build_attention(config, query_size=2, key_size=2, value_size=2)
    states = torch.tensor([[[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]])
    memory = attention.prepare(states, torch.tensor([[True, True, False]]))

    context, weights = attention(torch.randn(1, 4, 2), memory)

    assert_close(weights, torch.tensor([0.5, 0.5, 0]).expand(1, attention.num_heads, 4, 3))
    if memory.values is states and attention.num_heads > 0:
        assert_close(context, torch.tensor([1.0, 2.0]).expand(1, 4, 2))


@every_type
def test_published_averages_of_equal_keys_hold(config):
    attention = build_attention(config, query_size=4, key_size=4, value_size=4)
    mask = torch.arange(10) < torch.tensor([[2], [6]])
    memory = attention.prepare(torch.ones(2, 10, 4), mask)
    values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)

    _, weights = attention(torch.randn(2, 1, 4), memory)

    expected = torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]])
    for head in weights.unbind(1):
        assert_close(head @ values, expected)


@every_type
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 2, st.integers(1, 9)),
    scale=st.floats(0, 30),
    dtype=st.sampled_from(sorted(LOW_PRECISION, key=str)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_precision_gives_probabilities(config, sizes, scale, dtype, seed):
    num_sources, target_length, source_length = sizes
    query_size, key_size = attention_sizes(config)
    attention = tiny_attention(config, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    query = scale * torch.randn(num_sources, target_length, query_size, generator=generator)
    states = scale * torch.randn(num_sources, source_length, key_size, generator=generator)
    lengths = torch.randint(source_length + 1, (num_sources, 1), generator=generator)
    mask = torch.arange(source_length) < lengths

    context, weights = attention(query.to(dtype), attention.prepare(states.to(dtype), mask))

    sums = mask.any(-1).double()[:, None, None].expand(weights.shape[:-1])
    assert_close(weights.double().sum(-1), sums, atol=LOW_PRECISION[dtype], rtol=0)
    assert (weights.masked_select(~mask[:, None, None]) == 0).all()
    assert context.isfinite().all()


@every_type
@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5])
def test_dropout_out_of_range_is_refused_by_key_and_value(config, dropout):
    with pytest.raises(ValueError, match=rf"attention\.dropout={dropout} must lie in \[0, 1\)"):
        dataclasses.replace(config, dropout=dropout)


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(VARIANTS[name], "size")])
def test_size_below_one_is_refused_by_key_and_value(name):
    with pytest.raises(ValueError, match=r"attention\.size=0"):
        dataclasses.replace(VARIANTS[name], size=0)


@pytest.mark.parametrize("name", NAMES)
def test_config_refuses_a_field_that_it_does_not_have(name):
    with pytest.raises(AttributeError):
        VARIANTS[name].misspelt = 1


@every_type
def test_module_is_that_of_its_config(config):
    query_size, key_size = attention_sizes(config)

    first, second = (
        build_attention(other, query_size=query_size, key_size=key_size, value_size=key_size)
        for other in (config, dataclasses.replace(config))
    )

    assert type(first) is type(second)
    assert first is not second
