import pytest
import torch
from tiny_attention import DiagonalAttention

from seq2seq.attention.base import build_attention
from seq2seq.attention.contract import check_attention
from seq2seq.attention.dot import DotConfig
from seq2seq.attention.normalizers import Normalizer


def test_values_are_converted_for_the_products_of_all_steps_at_once():
    attention = build_attention(DotConfig(), query_size=4, key_size=4, value_size=6)
    keys, values = torch.randn(2, 3, 4), torch.randn(2, 3, 6)

    with torch.autocast("cpu", torch.bfloat16):
        assert attention.prepare(keys, values=values).values.dtype == torch.bfloat16
        assert attention.double().prepare(keys, values=values.double()).values.dtype == torch.double
    assert attention.prepare(keys, values=values).values.dtype == torch.float32


@pytest.mark.parametrize("normalizer", Normalizer)
def test_positional_type_keeps_the_contract(normalizer):
    check_attention(DiagonalAttention, DotConfig(normalizer=normalizer))


def test_score_sees_the_position_of_each_target_token():
    attention = DiagonalAttention(DotConfig(), query_size=4, key_size=6, value_size=6)
    memory = attention.prepare(torch.zeros(2, 5, 6), torch.tensor([5, 3]))
    state, rows = attention.start(memory), []

    _, weights = attention(torch.zeros(2, 4, 4), memory)
    for _ in range(4):
        _, row, state = attention.step(torch.zeros(2, 4), memory, state)
        rows.append(row)

    distances = torch.arange(5) - torch.arange(4).unsqueeze(1)
    expected = (-distances.square().float()).softmax(-1)
    torch.testing.assert_close(weights[0, 0], expected)
    torch.testing.assert_close(weights[1, 0, :, 3:], torch.zeros(4, 2))
    torch.testing.assert_close(torch.stack(rows, dim=2), weights)
