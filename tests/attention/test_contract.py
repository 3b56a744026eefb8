import dataclasses

import pytest
import torch
from tiny_attention import (
    POSITIONAL,
    VALUE_SIZE,
    VARIANTS,
    attend,
    attention_sizes,
    tiny_attention,
    tiny_sources,
)
from torch.testing import assert_close

from seq2seq.attention import attention_config_types, build_attention

# B=3, T=4, S=5; Q=6, K=10 (6 where the type asks it), V=7
every_type = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
ORDERLESS = {name: each for name, each in VARIANTS.items() if each.name not in POSITIONAL}
without_positions = pytest.mark.parametrize("config", ORDERLESS.values(), ids=ORDERLESS.keys())
NAMES = sorted(attention_config_types())


@every_type
def test_context_and_weights_have_the_documented_shapes(config):
    attention, sources = tiny_attention(config), tiny_sources(config)

    context, weights = attend(attention, sources)

    assert context.shape == (3, 4, attention.context_size)
    assert weights.shape == (3, attention.num_heads, 4, 5)
    assert context.dtype == weights.dtype == torch.float64


@every_type
def test_keys_are_the_default_values(config):
    query_size, key_size = attention_sizes(config)
    attention = build_attention(
        config, query_size=query_size, key_size=key_size, value_size=key_size
    ).double()
    sources = tiny_sources(config)

    alone = attention(sources.query, attention.prepare(sources.keys, sources.mask))
    given = attend(attention, sources._replace(values=sources.keys))

    assert_close(alone, given, atol=0, rtol=0)


@every_type
@pytest.mark.parametrize("shape", [(3, 4, VALUE_SIZE), (2, 5, VALUE_SIZE)])
def test_error_for_too_few_values_names_both_shapes(config, shape):
    attention, sources = tiny_attention(config), tiny_sources(config)

    with pytest.raises(ValueError, match="give one value for each key") as error:
        attention.prepare(sources.keys, values=torch.zeros(shape))

    assert str(shape) in str(error.value)
    assert str(tuple(sources.keys.shape)) in str(error.value)


@pytest.mark.parametrize("name", [n for n, c in VARIANTS.items() if attention_sizes(c) != (6, 10)])
def test_error_for_different_sizes_names_both_sizes(name):
    config = VARIANTS[name]

    with pytest.raises(ValueError, match=rf"attention={config.name}\b.*query size 6.*key size 10"):
        build_attention(config, query_size=6, key_size=10, value_size=VALUE_SIZE)


@without_positions
def test_permuted_source_permutes_the_weights_and_keeps_the_context(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    order = torch.tensor([3, 0, 4, 2, 1])

    context, weights = attend(attention, sources)
    permuted = (part[:, order] for part in sources[1:])
    permuted_context, permuted_weights = attend(attention, type(sources)(sources.query, *permuted))

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
def test_one_query_at_a_time_equals_all_at_once(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)

    context, weights = attention(sources.query, memory)
    state, contexts, weights_of_steps = attention.start(memory), [], []
    for query in sources.query.unbind(1):
        step_context, step_weights, state = attention.step(query, memory, state)
        contexts.append(step_context)
        weights_of_steps.append(step_weights)

    assert_close(torch.stack(contexts, dim=1), context)
    assert_close(torch.stack(weights_of_steps, dim=2), weights)


@every_type
def test_gradients_equal_finite_differences(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    lengths = torch.tensor([[3, 2]])
    inputs = [part[:1, :size].detach() for part, size in zip(sources, (2, 3, 3), strict=False)]

    def outputs(query, keys, values, *_):
        return attention(query, attention.prepare(keys, lengths, values=values))

    variables = *(part.requires_grad_() for part in inputs), *attention.parameters()
    assert torch.autograd.gradcheck(outputs, variables)


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
def test_dropout_drops_weights_and_scales_the_others(config):
    single = {"num_heads": 1} if hasattr(config, "num_heads") else {}
    attention = tiny_attention(dataclasses.replace(config, dropout=0.2, **single))
    sources = tiny_sources(config)
    query, (keys, values) = torch.randn(3, 500, 6).double(), (part[:, :1] for part in sources[1:3])

    context, _ = attention.train()(query, attention.prepare(keys, values=values))
    full, _ = attention.eval()(query, attention.prepare(keys, values=values))

    # The weight of a single position is 1; dropout turns it into 1 / 0.8 or 0.
    kept = context.any(-1)
    assert_close(context[kept], full[kept] / 0.8)
    if attention.num_heads > 0:
        assert_close(kept.double().mean().item(), 0.8, atol=0.05, rtol=0)


@without_positions
def test_equal_states_give_the_published_values_for_any_query(config):
    attention = build_attention(config, query_size=2, key_size=2, value_size=2)
    states = torch.tensor([[[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]])
    memory = attention.prepare(states, torch.tensor([2]))

    context, weights = attention(torch.randn(1, 4, 2), memory)

    assert_close(weights, torch.tensor([0.5, 0.5, 0]).expand(1, attention.num_heads, 4, 3))
    if memory.values is states and attention.num_heads > 0:
        assert_close(context, torch.tensor([1.0, 2.0]).expand(1, 4, 2))


@without_positions
def test_equal_keys_give_the_published_averages(config):
    attention = build_attention(config, query_size=2, key_size=2, value_size=4)
    values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
    memory = attention.prepare(torch.ones(2, 10, 2), torch.tensor([2, 6]), values=values)

    context, weights = attention(torch.randn(2, 1, 2), memory)

    expected = torch.tensor([[[2.0, 3, 4, 5]], [[10.0, 11, 12, 13]]])
    for head in weights.unbind(1):
        assert_close(head @ values, expected)
    if memory.values is values and attention.num_heads > 0:
        assert_close(context, expected)


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(VARIANTS[name], "size")])
def test_size_below_one_is_an_error(name):
    with pytest.raises(ValueError, match=r"attention\.size=0"):
        dataclasses.replace(VARIANTS[name], size=0)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_config_field_is_an_error(name):
    with pytest.raises(AttributeError):
        VARIANTS[name].misspelt = 1


@every_type
def test_equal_configs_build_modules_of_one_type(config):
    query_size, key_size = attention_sizes(config)

    first, second = (
        build_attention(other, query_size=query_size, key_size=key_size, value_size=VALUE_SIZE)
        for other in (config, dataclasses.replace(config))
    )

    assert type(first) is type(second)
    assert first is not second
