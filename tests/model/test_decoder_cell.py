import dataclasses

import pytest
import torch
from tiny_models import FORMS, attention_config, decoder_config
from torch import nn
from torch.testing import assert_close

from seq2seq.attention import Attention, Memory, Past
from seq2seq.model.decoder_cell import DecoderState, GRUCell, build_recurrence

# R=4 rows of B=2 sentences, E=7 embedding, H=6 hidden, C=10 context, F=9 readout, S=5


NO_PAST = Past(torch.empty(4, 0, 0), torch.empty(4, 0, 0))


class RecordingAttention(Attention):
    """Return a context that tells queries apart, and remember the queries."""

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
    """A recurrence with random parameters and what one step of it reads."""

    def __init__(self, form, *, num_layers=1):
        torch.manual_seed(1)
        self.attention = RecordingAttention()
        config = decoder_config(form, num_layers=num_layers)
        self.recurrence = build_recurrence(config, attention=self.attention).double()
        self.embedded = torch.randn(4, 7).double()
        self.hidden = tuple(torch.randn(4, 6).double() for _ in range(num_layers))
        self.readout = torch.randn(4, 9).double()
        keys = torch.randn(2, 5, 10).double()
        self.memory = Memory(keys, keys, torch.ones(2, 5, dtype=torch.bool))

    def advance(self):
        state = DecoderState(self.hidden, self.readout, NO_PAST)
        return self.recurrence(self.recurrence.project(self.embedded), state, self.memory)

    @property
    def query(self):
        """The query of every row."""
        (query,) = self.attention.queries
        assert query.shape == (2, 2, 6)  # (B, K, H): a sentence's rows stand together
        return query.flatten(0, 1)


def torch_cell(cell, *further_inputs):
    """Return torch's own cell, which reads the inputs of ours and further ones beside them."""
    input_weight = torch.cat((cell.input_projection.weight, *further_inputs), dim=1)
    theirs = nn.GRUCell(input_weight.shape[1], 6, dtype=torch.float64)
    theirs.weight_ih.data, theirs.bias_ih.data = input_weight.data, cell.input_projection.bias.data
    theirs.weight_hh.data = cell.hidden_projection.weight.data
    theirs.bias_hh.data = cell.hidden_projection.bias.data
    return theirs


def test_cell_is_that_of_torch_over_a_sequence():
    torch.manual_seed(1)
    cell = GRUCell(7, 6, layer_norm=False).double()
    theirs = nn.GRU(7, 6, batch_first=True, dtype=torch.float64)
    theirs.weight_ih_l0.data = cell.input_projection.weight.data
    theirs.bias_ih_l0.data = cell.input_projection.bias.data
    theirs.weight_hh_l0.data = cell.hidden_projection.weight.data
    theirs.bias_hh_l0.data = cell.hidden_projection.bias.data
    inputs, hidden = torch.randn(2, 5, 7).double(), torch.randn(2, 6).double()

    expected, _ = theirs(inputs, hidden.unsqueeze(0))

    for step in range(5):
        hidden = cell(cell.input_projection(inputs[:, step]), hidden)
        assert_close(hidden, expected[:, step])


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


@pytest.mark.parametrize("num_layers", [1, 2])
def test_bahdanau_attends_with_the_previous_top_state_and_reads_embedding_and_context(num_layers):
    setting = Setting("bahdanau", num_layers=num_layers)

    advance = setting.advance()

    context = context_of(setting.hidden[-1])
    cell = torch_cell(setting.recurrence.first, setting.recurrence.context_projection.weight)
    bottom = cell(torch.cat((setting.embedded, context), dim=1), setting.hidden[0])
    assert_close(setting.query, setting.hidden[-1])
    assert_close(advance.context, context)
    assert_close(advance.hidden[0], bottom)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_conditional_attends_between_two_cells(num_layers):
    setting = Setting("conditional", num_layers=num_layers)

    advance = setting.advance()

    between = torch_cell(setting.recurrence.first)(setting.embedded, setting.hidden[0])
    assert_close(setting.query, between)
    assert_close(advance.context, context_of(between))
    bottom = torch_cell(setting.recurrence.second)(context_of(between), between)
    assert_close(advance.hidden[0], bottom)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_luong_attends_with_the_new_top_state(num_layers):
    setting = Setting("luong", num_layers=num_layers)

    advance = setting.advance()

    bottom = torch_cell(setting.recurrence.first)(setting.embedded, setting.hidden[0])
    assert_close(advance.hidden[0], bottom)
    assert_close(setting.query, advance.hidden[-1])
    assert_close(advance.context, context_of(advance.hidden[-1]))


@pytest.mark.parametrize("num_layers", [1, 2])
def test_input_feeding_reads_the_previous_readout_beside_the_embedding(num_layers):
    setting = Setting("input_feeding", num_layers=num_layers)

    advance = setting.advance()

    cell = torch_cell(setting.recurrence.first, setting.recurrence.readout_projection.weight)
    bottom = cell(torch.cat((setting.embedded, setting.readout), dim=1), setting.hidden[0])
    assert_close(advance.hidden[0], bottom)
    assert_close(setting.query, advance.hidden[-1])


@pytest.mark.parametrize("form", FORMS)
def test_upper_layers_read_the_new_state_below_and_their_own_previous_one(form):
    setting = Setting(form, num_layers=3)

    hidden = setting.advance().hidden

    for layer, cell in enumerate(setting.recurrence.upper, start=1):
        expected = torch_cell(cell)(hidden[layer - 1], setting.hidden[layer])
        assert_close(hidden[layer], expected)


@pytest.mark.parametrize("form", FORMS)
def test_hidden_dropout_acts_between_layers_in_training_only(form):
    setting = Setting(form, num_layers=2)
    setting.recurrence.dropout.p = 0.5

    drawn = [setting.recurrence.train() and setting.advance().hidden for _ in range(2)]
    fixed = [setting.recurrence.eval() and setting.advance().hidden for _ in range(2)]

    assert not torch.allclose(drawn[0][1], drawn[1][1])
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(fixed[0][1], fixed[1][1])


def test_state_keeps_the_selected_rows_in_their_order():
    hidden, readout = (torch.randn(3, 6), torch.randn(3, 6)), torch.randn(3, 9)
    past = Past(torch.randn(3, 2, 6), torch.randn(3, 2, 6))

    selected = DecoderState(hidden, readout, past).select(torch.tensor([2, 0, 2, 1]))

    rows = [2, 0, 2, 1]
    assert torch.equal(selected.readout, readout[rows])
    assert torch.equal(selected.past.keys, past.keys[rows])
    assert torch.equal(selected.past.values, past.values[rows])
    assert all(
        torch.equal(new, old[rows]) for new, old in zip(selected.hidden, hidden, strict=True)
    )


@pytest.mark.parametrize("form", ["bahdanau", "conditional"])
def test_input_feeding_is_refused_where_the_context_is_fed_back(form):
    message = rf"model\.decoder\.input_feeding=true goes with form=luong, not {form}.* to false"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(decoder_config(form), input_feeding=True)


def test_heads_that_do_not_divide_the_state_are_refused_where_they_are_used():
    message = r"model\.decoder\.self_attention_heads=4 must divide model\.decoder\.hidden_size=6"
    off = dataclasses.replace(decoder_config(), self_attention_heads=4)

    with pytest.raises(ValueError, match=message):
        dataclasses.replace(off, self_attention=True)


@pytest.mark.parametrize(
    "field",
    ["embedding_size", "hidden_size", "num_layers", "readout_size", "self_attention_heads"],
)
def test_size_below_one_is_refused_by_key_and_value(field):
    with pytest.raises(ValueError, match=rf"model\.decoder\.{field}=0 must be at least 1"):
        dataclasses.replace(decoder_config(), **{field: 0})


@pytest.mark.parametrize(
    "field", ["word_dropout", "embedding_dropout", "hidden_dropout", "readout_dropout"]
)
def test_dropout_out_of_range_is_refused_by_key_and_value(field):
    with pytest.raises(ValueError, match=rf"model\.decoder\.{field}=1\.0 must lie in \[0, 1\)"):
        dataclasses.replace(decoder_config(), **{field: 1.0})
