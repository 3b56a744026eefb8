from tiny_attention import attend, attention_config, tiny_attention, tiny_sources

CONFIG = attention_config("none")


def test_there_are_no_heads_no_context_and_no_parameters():
    attention, sources = tiny_attention(CONFIG), tiny_sources(CONFIG)

    context, weights = attend(attention, sources)

    assert (attention.num_heads, attention.context_size) == (0, 0)
    assert context.shape == (3, 4, 0)
    assert weights.shape == (3, 0, 4, 5)
    assert list(attention.parameters()) == []
