import dataclasses

import pytest
import torch
from tiny_attention import (
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
NAMES = sorted(attention_config_types())


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

    with pytest.raises(
        ValueError, match=rf"attention={config.name}\b.*size 6.*size 10.* make them so or"
    ):
        build_attention(config, query_size=6, key_size=10, value_size=VALUE_SIZE)


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
def test_dropout_drops_weights_of_the_context_and_scales_the_others_in_training_only(config):
    single = {"num_heads": 1} if hasattr(config, "num_heads") else {}
    attention = tiny_attention(dataclasses.replace(config, dropout=0.2, **single))
    plain = tiny_attention(dataclasses.replace(config, **single))
    sources = tiny_sources(config)
    query, (keys, values) = torch.randn(3, 500, 6).double(), (part[:, :1] for part in sources[1:3])
    memory = attention.prepare(keys, values=values)

    context, weights = attention.train()(query, memory)
    full, full_weights = plain(query, memory)

    # The weight of a single position is 1; dropout turns it into 1 / 0.8 or 0.
    kept = context.any(-1)
    assert_close(attention.eval()(query, memory), (full, full_weights))
    assert_close(weights, full_weights)
    assert_close(context[kept], full[kept] / 0.8)
    if attention.num_heads > 0:
        assert_close(kept.double().mean().item(), 0.8, atol=0.05, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_config_field_is_an_error(name):
    with pytest.raises(AttributeError):
        VARIANTS[name].misspelt = 1
