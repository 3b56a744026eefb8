# R=4 rows of B=2 sentences, E=7 embedding, H=6 hidden, C=10 context, F=9 readout, S=5
# R=3 rows, E=2, H=4, F=5
# B=3, T=4, H=6, C=10, E=7, F=9

import dataclasses

import pytest
import torch
from tiny_attention import attention_config
from tiny_models import FORMS, decoder_config
from torch import nn
from torch.testing import assert_close

from seq2seq.attention.base import Attention, Memory
from seq2seq.attention.multihead import Past
from seq2seq.model.recurrence import DecoderState, Readout, build_recurrence

NO_PAST = Past(torch.empty(4, 0, 0), torch.empty(4, 0, 0))


class RecordingAttention(Attention):
    """Record the queries and return contexts that depend on them."""

    def __init__(self):
        super().__init__(attention_config("uniform"), query_size=6, key_size=10, value_size=10)
        self.queries = []

    def forward(self, query, memory):
        self.queries.append(query)
        weights = query.new_zeros(*query.shape[:2], 5)
        return context_of(query), weights.unsqueeze(1)

    def score(self, query, keys):
        raise NotImplementedError


def context_of(query):
    return torch.cat((query.sin(), query[..., :4].cos()), dim=-1)


class Setting:
    """A recurrence with random parameters, and the inputs of one step."""

    def __init__(self, form, *, num_layers=1, residual=False):
        torch.manual_seed(1)
        self.attention = RecordingAttention()
        config = decoder_config(form, num_layers=num_layers, residual=residual)
        self.recurrence = build_recurrence(config, attention=self.attention).double()
        self.embedded = torch.randn(4, 7).double()
        self.hidden = tuple(torch.randn(4, 6).double() for _ in range(num_layers))
        self.feedback = torch.randn(4, 9).double()
        keys = torch.randn(2, 5, 10).double()
        self.memory = Memory(keys, keys, torch.ones(2, 5, dtype=torch.bool))

    def step(self):
        state = DecoderState(self.hidden, self.feedback, NO_PAST, ())
        return self.recurrence(self.recurrence.project(self.embedded), state, self.memory)

    @property
    def query(self):
        """Return the query of every row."""
        (query,) = self.attention.queries
        assert query.shape == (2, 2, 6)  # (B, K, H): the rows of a sentence are adjacent
        return query.flatten(0, 1)


def torch_cell(cell, *further_inputs):
    """Return torch's cell with the same weights; `further_inputs` widen its input."""
    input_weight = torch.cat((cell.input_projection.weight, *further_inputs), dim=1)
    theirs = nn.GRUCell(input_weight.shape[1], 6, dtype=torch.float64)
    theirs.weight_ih.data, theirs.bias_ih.data = input_weight.data, cell.input_projection.bias.data
    theirs.weight_hh.data = cell.hidden_projection.weight.data
    theirs.bias_hh.data = cell.hidden_projection.bias.data
    return theirs


@pytest.mark.parametrize("num_layers", [1, 2])
def test_bahdanau_attends_with_the_previous_top_state_and_reads_embedding_and_context(num_layers):
    setting = Setting("bahdanau", num_layers=num_layers)

    output = setting.step()

    context = context_of(setting.hidden[-1])
    cell = torch_cell(setting.recurrence.bottom_cell, setting.recurrence.context_projection.weight)
    bottom = cell(torch.cat((setting.embedded, context), dim=1), setting.hidden[0])
    assert_close(setting.query, setting.hidden[-1])
    assert_close(output.context, context)
    assert_close(output.hidden[0], bottom)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_conditional_attends_between_two_cells(num_layers):
    setting = Setting("conditional", num_layers=num_layers)

    output = setting.step()

    between = torch_cell(setting.recurrence.bottom_cell)(setting.embedded, setting.hidden[0])
    assert_close(setting.query, between)
    assert_close(output.context, context_of(between))
    bottom = torch_cell(setting.recurrence.context_cell)(context_of(between), between)
    assert_close(output.hidden[0], bottom)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_luong_attends_with_the_new_top_state(num_layers):
    setting = Setting("luong", num_layers=num_layers)

    output = setting.step()

    bottom = torch_cell(setting.recurrence.bottom_cell)(setting.embedded, setting.hidden[0])
    assert_close(output.hidden[0], bottom)
    assert_close(setting.query, output.hidden[-1])
    assert_close(output.context, context_of(output.hidden[-1]))


@pytest.mark.parametrize("num_layers", [1, 2])
def test_input_feeding_reads_embedding_and_previous_readout(num_layers):
    setting = Setting("input_feeding", num_layers=num_layers)

    output = setting.step()

    cell = torch_cell(setting.recurrence.bottom_cell, setting.recurrence.feedback_projection.weight)
    bottom = cell(torch.cat((setting.embedded, setting.feedback), dim=1), setting.hidden[0])
    assert_close(output.hidden[0], bottom)
    assert_close(setting.query, output.hidden[-1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("residual", [False, True])
def test_upper_layer_reads_the_output_below_and_its_own_previous_state(form, residual):
    setting = Setting(form, num_layers=3, residual=residual)

    hidden = setting.step().hidden

    # With residual connections the output of a layer is the sum of the states up to it.
    outputs = [sum(hidden[:i]) if residual else hidden[i - 1] for i in (1, 2, 3)]
    for cell, read, previous, state in zip(
        setting.recurrence.upper, outputs, setting.hidden[1:], hidden[1:], strict=False
    ):
        assert_close(state, torch_cell(cell)(read, previous))
    assert_close(setting.recurrence.top(hidden), outputs[2])


@pytest.mark.parametrize("form", ["bahdanau", "luong", "input_feeding"])
def test_residual_layers_attend_with_the_sum_of_all_states(form):
    setting = Setting(form, num_layers=3, residual=True)

    hidden = setting.step().hidden

    assert_close(setting.query, sum(setting.hidden if form == "bahdanau" else hidden))


@pytest.mark.parametrize("form", FORMS)
def test_hidden_dropout_acts_between_layers_in_training_only(form):
    setting = Setting(form, num_layers=2)
    setting.recurrence.dropout.p = 0.5

    drawn = [setting.recurrence.train() and setting.step().hidden for _ in range(2)]
    fixed = [setting.recurrence.eval() and setting.step().hidden for _ in range(2)]

    assert not torch.allclose(drawn[0][1], drawn[1][1])
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(fixed[0][1], fixed[1][1])


def test_select_returns_the_given_rows_in_the_given_order():
    hidden, feedback = (torch.randn(3, 6), torch.randn(3, 6)), torch.randn(3, 9)
    past = Past(torch.randn(3, 2, 6), torch.randn(3, 2, 6))

    attended = (torch.randn(3, 5), torch.randn(3, 1))

    selected = DecoderState(hidden, feedback, past, attended).select(torch.tensor([2, 0, 2, 1]))

    rows = [2, 0, 2, 1]
    assert torch.equal(selected.feedback, feedback[rows])
    assert torch.equal(selected.past.keys, past.keys[rows])
    assert torch.equal(selected.past.values, past.values[rows])
    for of_selected, of_all in ((selected.hidden, hidden), (selected.attended, attended)):
        for new, old in zip(of_selected, of_all, strict=True):
            assert torch.equal(new, old[rows])


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
