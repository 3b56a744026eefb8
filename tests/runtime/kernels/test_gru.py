import pytest
import torch
from tiny_graphs import gradients, mark, node_counts, random, without_collector
from torch.testing import assert_close

from seq2seq.model.recurrence import GRUCell
from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.gru import gru_step, unroll_gru
from seq2seq.runtime.kernels.operations import use_kernels

# T=5 steps, B=4 rows, I=3, H=2 of one direction
LENGTHS = [5, 1, 0, 3]
MASK = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)  # (B, T)
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
every_dtype = pytest.mark.parametrize("dtype", TOLERANCES)
either_way = pytest.mark.parametrize("reverse", [False, True])
padded_or_not = pytest.mark.parametrize("padding", [None, ~MASK.t()], ids=["full", "padded"])


def unroll_inputs(dtype=torch.float64, *, length=5, num_rows=4):
    """Return projected inputs (T, B, 3H), first state (B, H), weight (3H, H) and bias (3H)."""
    shapes = (length, num_rows, 6), (num_rows, 2), (6, 2), (6,)
    return [random(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def unroll_by_cell(projected, hidden, weight, bias, *, padding=None, reverse=False):
    """Do what `unroll` promises one step at a time."""
    cell = GRUCell(3, 2, layer_norm=False).to(projected.dtype)
    del cell.hidden_projection.weight, cell.hidden_projection.bias
    cell.hidden_projection.weight, cell.hidden_projection.bias = weight, bias
    states = [torch.empty(0)] * len(projected)
    for step in sorted(range(len(projected)), reverse=reverse):
        advanced = cell(projected[step], hidden)
        is_padding = torch.zeros(len(hidden), dtype=torch.bool)
        is_padding = is_padding if padding is None else padding[step]
        hidden = states[step] = torch.where(is_padding.unsqueeze(1), hidden, advanced)
    return torch.stack(states)


@pytest.mark.parametrize("kernels", Kernels)
@every_dtype
@either_way
@padded_or_not
def test_unroll_is_a_loop_of_cells(dtype, reverse, padding, kernels):
    use_kernels(kernels)
    inputs = unroll_inputs(dtype)

    states = unroll_gru(*inputs, padding=padding, reverse=reverse)

    expected = unroll_by_cell(*inputs, padding=padding, reverse=reverse)
    close = {"rtol": 0, "atol": TOLERANCES[dtype]}
    assert node_counts(states)["_UnrollBackward"] == (kernels is Kernels.fast)
    assert_close(states, expected, **close)
    assert_close(gradients([states], inputs), gradients([expected], inputs), **close)


@pytest.mark.parametrize("kernels", Kernels)
def test_step_has_the_gradients_of_finite_differences(kernels):
    use_kernels(kernels)
    inputs = random(4, 6, seed=0), random(4, 6, seed=1), random(4, 2, seed=2)

    assert ("_StepBackward" in node_counts(gru_step(*inputs))) == (kernels is Kernels.fast)
    assert torch.autograd.gradcheck(gru_step, inputs)


def test_unroll_without_gradients_is_the_same():
    inputs = unroll_inputs()

    with torch.no_grad():
        states = unroll_gru(*inputs, padding=~MASK.t())

    assert torch.equal(states, unroll_gru(*inputs, padding=~MASK.t()))
    assert torch.equal(unroll_gru(*(each.detach() for each in inputs)), unroll_gru(*inputs))


@pytest.mark.parametrize(("length", "num_rows"), [(0, 4), (1, 4), (5, 0), (5, 1)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@either_way
def test_unroll_takes_any_number_of_steps_and_rows(length, num_rows, dtype, reverse):
    inputs = unroll_inputs(dtype, length=length, num_rows=num_rows)

    states = unroll_gru(*inputs, reverse=reverse)

    assert states.shape == (length, num_rows, 2)
    found = gradients([states], inputs)
    if states.numel():
        expected = gradients([unroll_by_cell(*inputs, reverse=reverse)], inputs)
        assert_close(found, expected, rtol=0, atol=1e-5)
    assert [each.shape for each in found] == [each.shape for each in inputs]


def test_unroll_has_the_same_gradients_in_a_second_backward():
    inputs = unroll_inputs()
    loss = unroll_gru(*inputs).sin().sum()

    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    second = torch.autograd.grad(loss, inputs)

    assert_close(first, second, rtol=0, atol=0)


def test_unroll_lets_its_graph_go_without_the_collector():
    projected, *others = unroll_inputs()
    with without_collector():
        marked, graph = mark(projected)
        loss = unroll_gru(marked, *others).sum()
        loss.backward()
        assert graph() is not None

        del marked, loss

        assert graph() is None


def test_bias_of_a_step_is_added_in_single_precision():
    shapes = ((4, 2), (6, 2), (6,))
    hidden, weight, bias = (random(*shape, seed=1, dtype=torch.float32) for shape in shapes)
    projected = torch.zeros(1, 4, 6)
    rounded = (hidden.bfloat16() @ weight.bfloat16().t()).float() + bias

    states = unroll_gru(projected.bfloat16(), hidden, weight, bias)

    reset, update, new = rounded.chunk(3, dim=1)
    expected = torch.lerp(torch.tanh(reset.sigmoid() * new), hidden, update.sigmoid())
    assert_close(states[0], expected)
