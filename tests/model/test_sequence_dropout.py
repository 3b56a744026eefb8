import torch

from seq2seq.model.sequence_dropout import DropoutFactors, drop, over_steps

# R=3 rows, E=2, H=4, F=5


def test_selected_rows_keep_their_factors():
    factors = DropoutFactors(torch.randn(3, 2), (torch.randn(3, 4), None), None, torch.randn(3, 5))
    rows = torch.tensor([2, 0, 2])

    selected = factors.select(rows)

    assert torch.equal(selected.embedding, factors.embedding[rows])
    assert torch.equal(selected.of_layer(0), factors.of_layer(0)[rows])
    assert selected.of_layer(1) is selected.hidden is None
    assert torch.equal(selected.readout, factors.readout[rows])


def test_factors_that_were_not_drawn_are_none_for_every_layer():
    factors = DropoutFactors()

    assert factors.of_layer(0) is factors.of_layer(5) is None
    assert factors.select(torch.tensor([1])) == factors


def test_factors_over_steps_drop_the_same_at_every_step():
    inputs, factors = torch.ones(3, 6, 2), torch.randn(3, 2)

    result = drop(inputs, over_steps(factors))

    for step in range(6):
        assert torch.equal(result[:, step], factors)
    assert over_steps(None) is None
    assert drop(inputs, None) is inputs
