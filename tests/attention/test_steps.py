"""Check that steps of causal self-attention equal the whole sequence and take time O(t)."""

import pytest
import torch
from tiny_attention import draw_sequences, sequence_attention
from torch.testing import assert_close

from seq2seq.attention import CausalSelfAttention

# B=3, T=5, D=8
every_number_of_heads = pytest.mark.parametrize("num_heads", [1, 2, 4])


def unroll(module, states):
    """Return the contexts of all steps and the past after each step."""
    past, contexts, pasts = module.start(states[:, 0]), [], []
    for state in states.unbind(1):
        context, past = module.step(state, past)
        contexts.append(context)
        pasts.append(past)
    return torch.stack(contexts, dim=1), pasts


@every_number_of_heads
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
def test_steps_equal_the_whole_in_values_and_gradients(num_heads, dtype, tolerance):
    module = sequence_attention(CausalSelfAttention, num_heads, dtype=dtype)
    (states,) = draw_sequences(CausalSelfAttention, dtype=dtype)
    whole, steps = module(states).context, unroll(module, states)[0]

    gradients = [
        torch.autograd.grad(context.square().mean(), (states, *module.parameters()))
        for context in (whole, steps)
    ]

    assert_close(steps, whole, atol=tolerance, rtol=0)
    assert_close(gradients[1], gradients[0], atol=tolerance, rtol=0)


def test_each_step_appends_one_position_to_the_past():
    module, (states,) = sequence_attention(CausalSelfAttention), draw_sequences(CausalSelfAttention)

    start, (_, pasts) = module.start(states[:, 0]), unroll(module, states)

    assert start.keys.shape == start.values.shape == (3, 0, 8)
    for length, past in enumerate(pasts, start=1):
        assert past.keys.shape == past.values.shape == (3, length, 8)
        assert torch.equal(past.keys, pasts[-1].keys[:, :length])
        assert torch.equal(past.values, pasts[-1].values[:, :length])


def test_step_projects_only_the_new_position():
    module, (states,) = sequence_attention(CausalSelfAttention), draw_sequences(CausalSelfAttention)
    lengths = []
    for name in ("query_projection", "key_projection", "value_projection", "output_projection"):
        getattr(module.attention, name).register_forward_hook(
            lambda _, inputs, __: lengths.append(inputs[0].shape[1])
        )

    unroll(module, states)

    assert lengths == [1] * 4 * 5


def test_selected_rows_continue_from_their_own_past():
    module, (states,) = sequence_attention(CausalSelfAttention), draw_sequences(CausalSelfAttention)
    rows = torch.tensor([2, 0, 0, 1])
    _, pasts = unroll(module, states[:, :3])

    context, _ = module.step(states[rows, 4], pasts[-1].select(rows))

    joined = torch.cat([states[rows, :3], states[rows, 4:]], dim=1)
    assert_close(context, module(joined).context[:, -1], atol=1e-12, rtol=0)


def test_step_does_not_change_its_arguments():
    module, (states,) = sequence_attention(CausalSelfAttention), draw_sequences(CausalSelfAttention)
    _, pasts = unroll(module, states[:, :2])
    before = [part.clone() for part in pasts[-1]]

    module.step(states[:, 2], pasts[-1])

    assert_close(list(pasts[-1]), before, atol=0, rtol=0)
