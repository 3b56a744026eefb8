import pytest
import torch
from tiny_models import attention_config, mix_by_loop, tiny_attention, tiny_sources
from torch.testing import assert_close

CONFIG = attention_config("general")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_context_and_weights_are_those_of_a_double_loop(dtype, tolerance):
    attention, sources = tiny_attention(CONFIG, dtype=dtype), tiny_sources(CONFIG, dtype=dtype)
    matrix = attention.key_projection.weight.double().tolist()

    def score(query, key):
        rows = zip(query, matrix, strict=True)
        return sum(q * sum(map(float.__mul__, row, key)) for q, row in rows)

    context, weights = attention(sources.query, attention.prepare(sources.states, sources.mask))

    states = sources.states.double()
    expected = mix_by_loop(score, sources.query.double(), states, states, sources.mask)
    assert_close(context.double(), expected[0], atol=tolerance, rtol=0)
    assert_close(weights.double(), expected[1].unsqueeze(1), atol=tolerance, rtol=0)


def test_identity_matrix_makes_it_an_unscaled_dot():
    attention = tiny_attention(CONFIG)
    attention.key_projection.weight.data = torch.eye(2).double()
    keys = torch.tensor([[[1.0, 0], [0, 1], [1, 1], [9, 9]]]).double()
    memory = attention.prepare(keys, torch.tensor([[True, True, True, False]]))

    _, weights = attention(torch.tensor([[[1.0, 2.0]]]).double(), memory)

    expected = torch.tensor([[[[0.090031, 0.244728, 0.665241, 0]]]]).double()
    assert_close(weights, expected, atol=1e-6, rtol=0)
