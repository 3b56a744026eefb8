import dataclasses

import pytest
import torch
from tiny_models import decoder_config
from torch import nn
from torch.testing import assert_close

from seq2seq.model.readout import Readout

# B=3, T=4, H=6, C=10, E=7, F=9


def make_readout(**options):
    torch.manual_seed(1)
    config = dataclasses.replace(decoder_config(), **options)
    readout = Readout(config, context_size=10).double()
    for parameter in readout.parameters():
        nn.init.normal_(parameter, std=0.5)
    return readout


def draw_inputs():
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(3, 4, size, generator=generator).double() for size in (6, 10, 7)]


def test_readout_is_the_tanh_of_a_projection_of_all_inputs():
    readout, inputs = make_readout(), draw_inputs()

    readouts = readout(*inputs)

    projection = readout.projection
    joined = torch.cat(inputs, dim=-1)
    assert readouts.shape == (3, 4, 9)
    assert_close(readouts, (joined @ projection.weight.T + projection.bias).tanh())


def test_layer_norm_normalises_the_projection():
    readout, inputs = make_readout(layer_norm=True), draw_inputs()

    readouts = readout(*inputs)

    projected = readout.projection(torch.cat(inputs, dim=-1))
    norm = readout.norm
    expected = nn.functional.layer_norm(projected, (9,), norm.weight, norm.bias).tanh()
    assert_close(readouts, expected)


def test_self_attention_refines_the_state_alone():
    readout, (hidden, *others) = make_readout(self_attention=True), draw_inputs()

    readouts = readout(hidden, *others)

    joined = torch.cat((readout.self_attention(hidden), *others), dim=-1)
    assert_close(readouts, readout.projection(joined).tanh())


@pytest.mark.parametrize("self_attention", [False, True])
def test_steps_equal_the_whole_target(self_attention):
    readout, inputs = make_readout(self_attention=self_attention), draw_inputs()
    past, steps = readout.start(inputs[0][:, 0]), []

    for step in zip(*(part.unbind(1) for part in inputs), strict=True):
        result, past = readout.step(*step, past)
        steps.append(result)

    assert_close(torch.stack(steps, dim=1), readout(*inputs))
    assert past.keys.shape[1] == (4 if self_attention else 0)
