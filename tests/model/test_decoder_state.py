import torch

from seq2seq.attention import Past
from seq2seq.model.decoder_state import DecoderState


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
