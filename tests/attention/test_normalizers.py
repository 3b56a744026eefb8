import pytest
import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources

from seq2seq.attention import (
    CausalSelfAttention,
    DotConfig,
    MultiHeadConfig,
    NoAttentionConfig,
    Normalizer,
    SelfAttention,
    UniformConfig,
)
from seq2seq.attention.normalizers import NORMALIZERS

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
