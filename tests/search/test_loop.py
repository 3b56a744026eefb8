"""The history of a search traces each hypothesis back, with the attention weights of its steps."""

import pytest
import torch

from seq2seq.search.loop import JOINED_STEPS, ROOT, Ending, History


@pytest.mark.parametrize("num_steps", [1, JOINED_STEPS, JOINED_STEPS + 1, 2 * JOINED_STEPS + 3])
def test_each_token_has_the_attention_weights_of_its_step(num_steps):
    history = History()
    weights = torch.rand(num_steps, 3, 2, 5)  # of 3 rows, of which the first two are used in turn
    cells = torch.tensor([[ROOT]])

    for step in range(num_steps):
        cells = history.append(
            torch.full((1, 1), step + 10),
            parents=cells,
            rows=torch.full((1, 1), step % 2),
            log_probabilities=torch.full((1, 1), -step - 1.0),
            attention_weights=weights[step],
        )
    ((found,),) = history.hypotheses([[Ending(int(cells), 0.0)]], [4])

    assert found.ids == list(range(10, num_steps + 10))
    used = torch.stack([weights[step, step % 2, :, :4] for step in range(num_steps)], dim=1)
    torch.testing.assert_close(found.attention_weights, used, rtol=0, atol=0)
