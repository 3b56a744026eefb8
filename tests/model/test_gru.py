"""The GRU of CUDA over padded rows equals torch's GRU over packed ones."""

# B batch, T length, I input, H hidden of one direction

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_graphs import gradients, random
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seq2seq.model.encoder import BidirectionalGRU, direction_parameters, flatten_direction
from seq2seq.model.recurrence import GRUCell

# T=5 steps, B=4 rows, I=3, H=2 of one direction
LENGTHS = [5, 1, 0, 3]
MASK = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)  # (B, T)
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
every_dtype = pytest.mark.parametrize("dtype", TOLERANCES)


def bidirectional(num_layers, *, dtype=torch.float64, dropout=0.0, residual=False):
    torch.manual_seed(1)
    gru = BidirectionalGRU(3, 2, num_layers=num_layers, dropout=dropout, residual=residual)
    for parameter in gru.parameters():
        nn.init.normal_(parameter)
    return gru.to(dtype)


def run_torch(gru, inputs, mask):
    """Run torch's GRU on the rows that are not empty; the results of the others are 0."""
    rows = mask.any(1).nonzero().squeeze(1)
    lengths = mask.sum(1)[rows]
    packed = pack_padded_sequence(inputs[rows], lengths, batch_first=True, enforce_sorted=False)
    found, final = nn.GRU.forward(gru, packed)
    padded, _ = pad_packed_sequence(found, batch_first=True, total_length=inputs.shape[1])
    states = inputs.new_zeros(*inputs.shape[:2], 4).index_copy(0, rows, padded)
    last = inputs.new_zeros(len(inputs), 4)
    return states, last.index_copy(0, rows, torch.cat((final[-2], final[-1]), dim=1))


@every_dtype
@pytest.mark.parametrize("num_layers", [1, 2])
def test_bidirectional_gru_equals_torch_over_packed_sequences(dtype, num_layers):
    gru, inputs = bidirectional(num_layers, dtype=dtype), random(4, 5, 3, seed=1, dtype=dtype)
    leaves = [inputs, *gru.parameters()]

    states, last = gru(inputs, MASK)
    states = states * MASK.unsqueeze(-1)

    expected = run_torch(gru, inputs, MASK)
    close = {"rtol": 0, "atol": TOLERANCES[dtype]}
    assert_close((states, last), expected, **close)
    expected_gradients = gradients(expected, leaves)
    largest = max(each.abs().max().item() for each in expected_gradients)
    close["atol"] *= max(largest, 1)
    assert_close(gradients((states, last), leaves), expected_gradients, **close)


def test_frozen_weights_get_no_gradient_but_the_input_does():
    gru, inputs = bidirectional(2), random(4, 5, 3, seed=1)
    expected = gradients(gru(inputs, MASK), [inputs])
    gru.requires_grad_(False)
    gru.bias_hh_l0.requires_grad_(True)

    found = gradients(gru(inputs, MASK), [inputs])
    gru(inputs, MASK)[1].sum().backward()

    assert_close(found, expected)
    assert [name for name, each in gru.named_parameters() if each.grad is not None] == [
        "bias_hh_l0"
    ]


def test_states_stay_in_single_precision_under_autocast():
    gru = bidirectional(2, dtype=torch.float32)
    inputs = random(4, 5, 3, seed=1, dtype=torch.float32)
    leaves = [inputs, *gru.parameters()]
    exact = gru(inputs, MASK)

    with torch.autocast("cpu", torch.bfloat16):
        found = gru(inputs, MASK)

    assert found[0].dtype == found[1].dtype == torch.float32
    assert_close(found, exact, rtol=0, atol=0.05)
    for gradient, expected in zip(gradients(found, leaves), gradients(exact, leaves), strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - expected).norm() <= 0.05 * expected.norm()


def test_cell_with_layer_norm_normalises_both_projections():
    torch.manual_seed(1)
    cell = GRUCell(7, 6, layer_norm=True).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    inputs, hidden = torch.randn(2, 7).double(), torch.randn(2, 6).double()

    result = cell(cell.input_projection(inputs), hidden)

    x_reset, x_update, x_new = cell.input_norm(cell.input_projection(inputs)).chunk(3, dim=-1)
    h_reset, h_update, h_new = cell.hidden_norm(cell.hidden_projection(hidden)).chunk(3, dim=-1)
    reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
    assert_close(result, (1 - update) * torch.tanh(x_new + reset * h_new) + update * hidden)
    assert cell.input_norm.normalized_shape == cell.hidden_norm.normalized_shape == (18,)


@pytest.mark.parametrize(("num_layers", "residual"), [(1, False), (3, False), (3, True)])
def test_cuda_gives_the_states_and_gradients_of_the_cpu_and_waits_for_nothing(num_layers, residual):
    gru, inputs = bidirectional(num_layers, residual=residual), random(4, 5, 3, seed=1)

    def run(sequences, mask):
        states, last = gru(sequences, mask)
        return states * mask.unsqueeze(-1), last

    expected = run(inputs, MASK)
    expected_gradients = gradients(expected, [inputs, *gru.parameters()])
    with pretend_cuda() as cuda:
        cuda.move(gru)
        moved, mask = (each.detach().to(CUDA) for each in (inputs, MASK))
        moved.requires_grad_()
        cuda.waits.clear()

        found = run(moved, mask)

        assert not cuda.waits
        found_gradients = gradients(found, [moved, *gru.parameters()])
        for one, other in zip(
            (*found, *found_gradients), (*expected, *expected_gradients), strict=True
        ):
            assert_close(one.cpu(), other, rtol=1e-10, atol=1e-10)


def test_flattening_changes_no_parameter_and_draws_no_number():
    gru = bidirectional(2)
    before = {name: each.clone() for name, each in gru.named_parameters()}
    objects = list(gru.parameters())
    drawn = torch.get_rng_state()

    flatten_direction(direction_parameters(gru, "l1_reverse"))

    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(a is b for a, b in zip(gru.parameters(), objects, strict=True))
    for name, each in gru.named_parameters():
        assert torch.equal(each, before[name])
