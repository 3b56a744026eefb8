"""The GRU of CUDA over padded rows equals torch's GRU over packed ones."""

# B batch, T length, I input, H hidden of one direction

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.model.cudnn_gru import direction_parameters, flatten_direction, run_direction
from seq2seq.model.gru import BidirectionalGRU

LENGTHS = torch.tensor([7, 3, 1, 5, 6, 2])


def make_gru(num_layers: int) -> BidirectionalGRU:
    torch.manual_seed(0)
    return BidirectionalGRU(5, 4, num_layers=num_layers, dropout=0.0).double()


def draw_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs (B, T, I), random at padding too, and their mask (B, T)."""
    torch.manual_seed(1)
    inputs = torch.randn(6, 7, 5, dtype=torch.double, requires_grad=True)
    return inputs, torch.arange(7) < LENGTHS.unsqueeze(1)


def run_packed(gru, inputs):
    packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
    packed_states, last = nn.GRU.forward(gru, packed)
    states, _ = pad_packed_sequence(packed_states, batch_first=True)
    return states, torch.cat((last[-2], last[-1]), dim=-1)


def gradients(gru, inputs, outputs):
    """Differentiate a sum that weights every state differently."""
    generator = torch.Generator().manual_seed(2)
    loss = torch.zeros((), dtype=torch.double, device=inputs.device)
    for each in outputs:
        weights = torch.randn(each.shape, generator=generator, dtype=torch.double)
        loss = loss + (each * weights.to(inputs.device)).sum()
    return torch.autograd.grad(loss, [inputs, *gru.parameters()])


@pytest.mark.parametrize("num_layers", [1, 2])
def test_padded_rows_give_the_states_and_gradients_of_packed_ones(num_layers):
    gru = make_gru(num_layers)
    inputs, mask = draw_inputs()
    expected = run_packed(gru, inputs)
    expected_grads = gradients(gru, inputs, expected)
    with pretend_cuda() as cuda:
        cuda.move(gru)
        inputs, mask = inputs.detach().to(CUDA).requires_grad_(), mask.to(CUDA)
        cuda.clear()

        states, last = gru(inputs, mask)

        assert not cuda.syncs
        actual = (states * mask.unsqueeze(-1), last)
        actual_grads = gradients(gru, inputs, actual)
        for each, wanted in zip(
            (*actual, *actual_grads), (*expected, *expected_grads), strict=True
        ):
            torch.testing.assert_close(each.cpu(), wanted, rtol=1e-12, atol=1e-12)


def test_cpu_and_cuda_agree_on_a_sentence_without_a_real_position():
    gru = make_gru(1)
    inputs, mask = draw_inputs()
    mask = mask & (torch.arange(6) != 3).unsqueeze(1)
    expected_states, expected_last = gru(inputs, mask)
    with pretend_cuda() as cuda:
        states, last = cuda.move(gru)(inputs.detach().to(CUDA), mask.to(CUDA))

        real = mask.unsqueeze(-1)
        torch.testing.assert_close(states.cpu() * real, expected_states * real)
        torch.testing.assert_close(last.cpu(), expected_last)
        assert not last[3].any()


def test_autocast_leaves_the_states_in_fp32():
    """They accumulate over the steps, and autocast runs cuDNN in fp16 even for bf16."""
    gru = make_gru(1).float()
    inputs, mask = draw_inputs()
    with pretend_cuda() as cuda:
        cuda.move(gru)
        inputs, mask = inputs.detach().float().to(CUDA), mask.to(CUDA)
        expected, _ = gru(inputs, mask)

        with torch.autocast("cuda", dtype=torch.bfloat16):
            states, last = gru(inputs, mask)

        assert states.dtype == last.dtype == torch.float32
        torch.testing.assert_close(states.cpu(), expected.cpu(), rtol=0, atol=0)


def test_the_forward_direction_keeps_its_last_state_at_padding():
    inputs, mask = draw_inputs()
    parameters = direction_parameters(make_gru(1), "l0")

    states = run_direction(inputs.transpose(0, 1), ~mask.t(), parameters, reverse=False)

    for row, length in enumerate(LENGTHS.tolist()):
        kept = states[length - 1, row].expand(7 - length, 4)
        torch.testing.assert_close(states[length:, row], kept, rtol=0, atol=0)


def test_flattening_changes_no_parameter_and_draws_no_number():
    gru = make_gru(2)
    before = {name: each.clone() for name, each in gru.named_parameters()}
    objects = list(gru.parameters())
    drawn = torch.get_rng_state()

    flatten_direction(direction_parameters(gru, "l1_reverse"))

    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(a is b for a, b in zip(gru.parameters(), objects, strict=True))
    for name, each in gru.named_parameters():
        assert torch.equal(each, before[name])
