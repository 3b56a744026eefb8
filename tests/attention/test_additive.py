import pytest
import torch
from tiny_attention import VARIANTS, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig, RememberingAttention


def test_published_values():
    config = AdditiveConfig(name="additive", dropout=0.0, size=2)
    attention = AdditiveAttention(config, query_size=2, key_size=2, value_size=2)
    attention.query_projection.weight.data = torch.eye(2)
    attention.key_projection.weight.data = torch.eye(2)
    attention.score_projection.weight.data.fill_(1.0)
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]])
    mask = torch.tensor([[True, True, True, False]])

    _, weights = attention(torch.tensor([[[1.0, 2.0]]]), attention.prepare(keys, mask))

    expected = torch.tensor([[[[0.347948, 0.293139, 0.358913, 0]]]])
    assert_close(weights, expected, atol=1e-6, rtol=0)


def test_keys_are_projected_once_per_sentence():
    attention = tiny_attention(attention_config("additive"))
    sources = tiny_sources(attention_config("additive"))

    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)

    assert_close(memory.keys, sources.keys @ attention.key_projection.weight.T)
    assert memory.values is sources.values


# B=3, K=2, S=5, D=8, V=7
REMEMBERING = {
    name: config
    for name, config in VARIANTS.items()
    if isinstance(tiny_attention(config), RememberingAttention)
}
FORGETFUL = {name: config for name, config in VARIANTS.items() if name not in REMEMBERING}
every_remembering_type = pytest.mark.parametrize("config", REMEMBERING.values(), ids=REMEMBERING)


def prepared(config):
    """Return attention, memory and queries of three steps, each of 3 rows."""
    attention, sources = tiny_attention(config), tiny_sources(config)
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    return attention, memory, sources.query.unbind(1)[:3]


def run(attention, memory, queries, state):
    """Return what the last of some steps returns."""
    for query in queries:
        context, weights, state = attention.step(query, memory, state)
    return context, weights, state


@pytest.mark.parametrize("config", FORGETFUL.values(), ids=FORGETFUL)
def test_other_types_have_an_empty_state(config):
    attention, memory, queries = prepared(config)

    context, weights, state = attention.step(queries[0], memory, attention.start(memory))

    assert attention.start(memory) == state == ()
    assert context.shape == (3, attention.context_size)
    assert weights.shape == (3, attention.num_heads, 5)


@every_remembering_type
def test_state_of_padding_stays_zero_and_a_step_changes_no_argument(config):
    attention, memory, queries = prepared(config)
    _, _, state = run(attention, memory, queries[:2], attention.start(memory))
    before = [part.clone() for part in state]

    attention.step(queries[2], memory, state)

    assert_close(list(state), before, atol=0, rtol=0)
    assert not state[0][~memory.source_mask].any()


@every_remembering_type
def test_gradients_of_steps_are_those_of_one_call(config):
    attention = tiny_attention(config)
    query = tiny_sources(config).query
    factors = torch.randn(3, 1, 4, 5).double()
    parameters = tuple(attention.parameters())
    sources = tiny_sources(config)

    def loss_by_steps():
        memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
        state, found = attention.start(memory), []
        for one in query.unbind(1):
            _, weights, state = attention.step(one, memory, state)
            found.append(weights)
        return (torch.stack(found, dim=2) * factors).sum()

    def loss_at_once():
        memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
        return (attention(query, memory)[1] * factors).sum()

    gradients = [torch.autograd.grad(loss(), parameters) for loss in (loss_by_steps, loss_at_once)]
    assert_close(*gradients)
    assert any(gradient.abs().max() > 0 for gradient in gradients[0])
