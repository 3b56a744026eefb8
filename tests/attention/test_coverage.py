import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

CONFIG = attention_config("coverage")


def test_state_sums_the_weights_of_all_steps():
    attention, sources = tiny_attention(CONFIG), tiny_sources(CONFIG)
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    state = attention.start(memory)

    for query in sources.query.unbind(1):
        _, _, state = attention.step(query, memory, state)

    _, weights = attend(attention, sources)
    assert_close(state[0], weights[:, 0].sum(1))


def test_coverage_can_keep_attention_from_reading_a_token_twice():
    attention = tiny_attention(CONFIG)
    for parameter in attention.parameters():
        torch.nn.init.zeros_(parameter)
    attention.feature_projection.weight.data[0] = 1.0
    attention.score_projection.weight.data[0, 0] = -100.0  # against what was read
    attention.key_projection.weight.data[0, 0] = 0.1
    keys = torch.zeros(1, 4, 10).double()
    keys[0, :, 0] = torch.tensor([-1.0, -2.0, -3.0, -4.0])
    memory = attention.prepare(keys, values=torch.randn(1, 4, 7).double())

    weights = attention(torch.zeros(1, 4, 6).double(), memory)[1][0, 0]

    assert_close(weights, torch.eye(4).double().flip(1), atol=1e-3, rtol=0)


def test_without_the_coverage_it_is_additive_attention():
    attention, sources = tiny_attention(CONFIG), tiny_sources(CONFIG)
    additive = tiny_attention(attention_config("additive"))
    additive.load_state_dict(attention.state_dict(), strict=False)
    torch.nn.init.zeros_(attention.feature_projection.weight)

    assert_close(attend(attention, sources), attend(additive, sources))
