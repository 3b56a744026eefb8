# R=4 rows of B=2 sentences, T=4, E=8 embedding, H=6 hidden, C=10 context, F=6 readout, S=5

import pytest
import torch
from tiny_attention import attention_config
from tiny_models import FORMS, model_config
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
        config = model_config(form, num_layers=num_layers, residual=residual)
        self.recurrence = build_recurrence(config, attention=self.attention).double()
        self.embedded = torch.randn(4, 8).double()
        self.hidden = tuple(torch.randn(4, 6).double() for _ in range(num_layers))
        self.feedback = torch.randn(4, 6).double()
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


def step_by_torch(form, setting, output):
    """Return the query and the new states; `output` joins the states of some layers."""
    recurrence, embedded, hidden = setting.recurrence, setting.embedded, setting.hidden

    def all_layers(bottom):
        states = [bottom]
        for cell, previous in zip(recurrence.upper, hidden[1:], strict=True):
            states.append(torch_cell(cell)(output(states), previous))
        return states

    if form == "bahdanau":  # attends with the previous state, and reads embedding and context
        query = output(hidden)
        cell = torch_cell(recurrence.bottom_cell, recurrence.context_projection.weight)
        inputs = torch.cat((embedded, context_of(query)), dim=1)
        return query, all_layers(cell(inputs, hidden[0]))
    if form == "conditional":  # attends between two cells
        query = torch_cell(recurrence.bottom_cell)(embedded, hidden[0])
        bottom = torch_cell(recurrence.context_cell)(context_of(query), query)
        return query, all_layers(bottom)
    if form == "luong":
        states = all_layers(torch_cell(recurrence.bottom_cell)(embedded, hidden[0]))
    else:  # reads embedding and previous readout
        cell = torch_cell(recurrence.bottom_cell, recurrence.feedback_projection.weight)
        states = all_layers(cell(torch.cat((embedded, setting.feedback), dim=1), hidden[0]))
    return output(states), states  # both attend with the new state


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("num_layers", "residual"), [(1, False), (3, False), (3, True)])
def test_a_step_is_that_of_cells_of_torch(form, num_layers, residual):
    setting = Setting(form, num_layers=num_layers, residual=residual)

    found = setting.step()

    # With residual connections the output of a layer is the sum of the states up to it.
    output = sum if residual else (lambda states: states[-1])
    query, states = step_by_torch(form, setting, output)
    assert_close(setting.query, query)
    assert_close(found.context, context_of(query))
    assert_close(found.hidden, tuple(states))
    assert_close(setting.recurrence.top(found.hidden), output(states))


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
    rows = [2, 0, 2, 1]

    selected = DecoderState(hidden, feedback, past, attended).select(torch.tensor(rows))

    expected = DecoderState(
        tuple(each[rows] for each in hidden),
        feedback[rows],
        Past(past.keys[rows], past.values[rows]),
        tuple(each[rows] for each in attended),
    )
    assert_close(selected, expected, rtol=0, atol=0)


@pytest.mark.parametrize("option", ["neither", "layer_norm", "self_attention"])
def test_readout_is_the_tanh_of_a_projection_of_refined_state_context_and_embedding(option):
    torch.manual_seed(1)
    has_norm, refines = option == "layer_norm", option == "self_attention"
    config = model_config(layer_norm=has_norm, self_attention=refines)
    readout = Readout(config, context_size=10).double()
    for parameter in readout.parameters():
        nn.init.normal_(parameter, std=0.5)
    hidden, *others = (torch.randn(3, 4, size).double() for size in (6, 10, 8))

    readouts = readout(hidden, *others)

    refined = readout.self_attention(hidden) if refines else hidden
    weight, bias = readout.projection.parameters()
    projected = torch.cat((refined, *others), dim=-1) @ weight.T + bias
    if has_norm:
        projected = nn.functional.layer_norm(projected, (6,), *readout.norm.parameters())
    assert readouts.shape == (3, 4, 6)
    assert_close(readouts, projected.tanh())
