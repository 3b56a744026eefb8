import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2seq.model.self_attention import (
    CausalSelfAttentionLayer,
    NoSelfAttention,
    SelfAttentionLayer,
)

# B=3, T=5, D=8, N=2


def randomize(layer):
    torch.manual_seed(1)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.double()


def states():
    return torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(2)).double()


def unroll(layer, sequence):
    past = layer.start(sequence[:, 0])
    refined = []
    for state in sequence.unbind(1):
        new, past = layer.step(state, past)
        refined.append(new)
    return torch.stack(refined, dim=1), past


def test_layer_adds_the_context_and_normalises_the_sum():
    layer = randomize(SelfAttentionLayer(8, num_heads=2, dropout=0.0))
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]])

    refined = layer(states(), mask)

    seen = layer.attention(states(), mask, need_weights=True).context
    scale, shift = layer.norm.weight, layer.norm.bias
    assert_close(refined, nn.functional.layer_norm(states() + seen, (8,), scale, shift))


def test_causal_steps_equal_the_whole_sequence():
    layer = randomize(CausalSelfAttentionLayer(8, num_heads=2, dropout=0.0))

    refined, past = unroll(layer, states())

    assert_close(refined, layer(states()), atol=1e-12, rtol=0)
    assert past.keys.shape == past.values.shape == (3, 5, 8)


def test_causal_layer_ignores_later_positions():
    layer = randomize(CausalSelfAttentionLayer(8, num_heads=2, dropout=0.0))
    changed = states()
    changed[:, 3:] += 1

    before, after = layer(states()), layer(changed)

    assert torch.equal(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_selected_rows_continue_from_their_own_past():
    layer = randomize(CausalSelfAttentionLayer(8, num_heads=2, dropout=0.0))
    order = torch.tensor([2, 0, 2])
    _, past = unroll(layer, states()[:, :4])

    selected, _ = layer.step(states()[order, 4], past.select(order))

    assert_close(selected, layer(states())[order, 4])


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_acts_on_the_context_in_training_only(causal):
    layer_type = CausalSelfAttentionLayer if causal else SelfAttentionLayer
    layer = randomize(layer_type(8, num_heads=2, dropout=0.5))
    inputs = (states(),) if causal else (states(), torch.ones(3, 5, dtype=torch.bool))

    drawn = [layer.train()(*inputs) for _ in range(2)]
    fixed = [layer.eval()(*inputs) for _ in range(2)]

    assert not torch.allclose(*drawn)
    assert torch.equal(*fixed)


def test_no_self_attention_returns_the_states_and_keeps_no_past():
    refined, past = unroll(NoSelfAttention(), states())

    assert torch.equal(refined, states())
    assert torch.equal(NoSelfAttention()(states()), states())
    assert torch.equal(NoSelfAttention()(states(), torch.ones(3, 5).bool()), states())
    assert past.keys.shape == past.values.shape == (3, 0, 0)
