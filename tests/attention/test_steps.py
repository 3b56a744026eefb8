"""Check that steps of causal self-attention equal the whole sequence and take time O(t)."""

import itertools

import pytest
import torch
from tiny_attention import draw_sequences, sequence_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

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


class Work(TorchDispatchMode):
    """Count the numbers that operations read and write; views count 0."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if not operation.is_view:
            parts = torch.utils._pytree.tree_leaves((args, kwargs, result))
            self.numbers += sum(part.numel() for part in parts if isinstance(part, torch.Tensor))
        return result


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


@torch.no_grad()
def test_work_of_a_step_grows_linearly_with_the_past():
    module = sequence_attention(CausalSelfAttention)
    past, numbers = module.start(torch.zeros(3, 8).double()), []

    for state in torch.randn(40, 3, 8).double():
        with sdpa_kernel(SDPBackend.MATH), Work() as work:  # stores every score
            _, past = module.step(state, past)
        numbers.append(work.numbers)

    # A past of one position has another memory layout and needs one copy less.
    growth = {after - before for before, after in itertools.pairwise(numbers[1:])}
    assert len(growth) == 1
    assert growth.pop() > 0


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


def test_dropout_acts_on_a_step_in_training_only():
    module = sequence_attention(CausalSelfAttention, dropout=0.6)
    plain, (states,) = sequence_attention(CausalSelfAttention), draw_sequences(CausalSelfAttention)

    expected, _ = unroll(plain, states)

    assert_close(unroll(module.eval(), states)[0], expected)
    assert not torch.allclose(unroll(module.train(), states)[0], expected)
