import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.search.topk import stable_max, stable_topk


@given(
    values=st.lists(
        st.lists(st.sampled_from([-math.inf, -2.0, -1.0, 0.5]), min_size=6, max_size=6),
        min_size=1,
        max_size=3,
    ),
    k=st.integers(1, 8),
)
def test_topk_orders_equal_values_by_index(values, k):
    largest, indices = stable_topk(torch.tensor(values), k)

    for row, its_largest, its_indices in zip(
        values, largest.tolist(), indices.tolist(), strict=True
    ):
        expected = sorted(range(6), key=lambda index: (-row[index], index))[:k]
        real = [index for index in expected if row[index] > -math.inf]
        assert its_largest == [row[index] for index in expected]
        assert its_indices[: len(real)] == real


@pytest.mark.parametrize("num_copies", [1, 2])
@given(values=st.lists(st.sampled_from([-math.inf, -1.0, 0.5]), min_size=1, max_size=150))
def test_max_takes_the_first_of_equal_values(num_copies, values):
    rows = torch.tensor([values, values[::-1], sorted(values)] * num_copies)

    largest, indices = stable_max(rows)

    assert largest.tolist() == [max(row) for row in rows.tolist()]
    assert indices.tolist() == [row.index(max(row)) for row in rows.tolist()]


@pytest.mark.parametrize("num_rows", [1, 5])
def test_max_of_nan_is_nan(num_rows):
    largest, _ = stable_max(torch.tensor([[0.0, math.nan, 1.0]] * num_rows))

    assert largest.isnan().all()
