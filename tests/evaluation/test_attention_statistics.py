"""The statistics of heads are those of their definitions, for any batches and padding."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.evaluation.attention_statistics import (
    AttentionStatistics,
    HeadStatistics,
    mean_over_heads,
)

NUM_HEADS = 3
LENGTHS = [(4, 2), (1, 5), (6, 3), (2, 1), (5, 7)]
"""Numbers of source and target tokens of each sentence, including EOS."""


def draw_weights(lengths):
    """Return weights (N, T, S) of each sentence, some of them exactly 0."""
    generator = torch.Generator().manual_seed(3)
    scores = [
        3 * torch.randn(NUM_HEADS, target, source, generator=generator, dtype=torch.float64)
        for source, target in lengths
    ]
    low = [each < each.mean(dim=-1, keepdim=True) for each in scores]
    return [
        each.masked_fill(mask, -math.inf).softmax(dim=-1)
        for each, mask in zip(scores, low, strict=True)
    ]


SENTENCES = draw_weights(LENGTHS)


def accumulate(sentences, *, batch_size, padding=0, filling=0.0, num_heads=NUM_HEADS):
    """Add sentences in batches with extra padding, filled with a value."""
    statistics = AttentionStatistics(num_heads)
    for start in range(0, len(sentences), batch_size):
        batch = sentences[start : start + batch_size]
        num_rows = max(each.shape[1] for each in batch) + padding
        num_columns = max(each.shape[2] for each in batch) + padding
        weights = torch.full(
            (len(batch), num_heads, num_rows, num_columns), filling, dtype=torch.float64
        )
        source_mask = torch.zeros(len(batch), num_columns, dtype=torch.bool)
        target_mask = torch.zeros(len(batch), num_rows, dtype=torch.bool)
        for row, each in enumerate(batch):
            weights[row, :, : each.shape[1], : each.shape[2]] = each
            target_mask[row, : each.shape[1]] = True
            source_mask[row, : each.shape[2]] = True
        statistics.add(weights, source_mask=source_mask, target_mask=target_mask)
    return statistics.heads(error_rates=None)


def expected(sentences, head):
    """Compute the statistics of a head from the definitions, one weight at a time."""
    entropies, sharpnesses, coverages = [], [], []
    for rows in (each[head].tolist() for each in sentences):
        for row in rows:
            entropies.append(-sum(weight * math.log(weight) for weight in row if weight > 0))
            sharpnesses.append(max(row))
        for column in range(len(rows[0]) - 1):  # the last is EOS
            coverages.append(min(1.0, sum(row[column] for row in rows)))
    return [sum(each) / len(each) for each in (entropies, coverages, sharpnesses)]


def assert_same(heads, others):
    for head, other in zip(heads, others, strict=True):
        assert head[:3] == pytest.approx(other[:3], rel=1e-12)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_statistics_are_those_of_the_definitions(batch_size):
    heads = accumulate(SENTENCES, batch_size=batch_size)

    for number, head in enumerate(heads):
        assert head[:3] == pytest.approx(expected(SENTENCES, number), rel=1e-12)
    assert len({head.entropy for head in heads}) == NUM_HEADS


@settings(max_examples=30)
@given(
    lengths=st.lists(st.tuples(st.integers(2, 6), st.integers(1, 6)), min_size=1, max_size=6),
    batch_size=st.integers(1, 6),
    padding=st.integers(0, 3),
    filling=st.sampled_from([0.0, 0.7, math.nan, math.inf]),
)
def test_neither_batches_nor_padding_change_the_statistics(lengths, batch_size, padding, filling):
    drawn = draw_weights(lengths)

    batched = accumulate(drawn, batch_size=batch_size, padding=padding, filling=filling)

    assert_same(batched, accumulate(drawn, batch_size=1))


def test_one_source_token_each_is_full_coverage_without_entropy():
    one_by_one = torch.eye(4, dtype=torch.float64).unsqueeze(0)

    [head] = accumulate([one_by_one], batch_size=1, num_heads=1)

    assert head == HeadStatistics(0.0, 1.0, 1.0, None)


def test_equal_weights_have_the_largest_entropy():
    [head] = accumulate(
        [torch.full((1, 3, 5), 0.2, dtype=torch.float64)], batch_size=1, num_heads=1
    )

    assert head.entropy == pytest.approx(math.log(5))
    assert head.sharpness == pytest.approx(1 / 5)
    assert head.coverage == pytest.approx(3 / 5)


def test_attention_to_one_token_leaves_the_others_uncovered():
    weights = torch.zeros(1, 6, 4, dtype=torch.float64)
    weights[..., 1] = 1.0

    [head] = accumulate([weights], batch_size=1, num_heads=1)

    assert head.coverage == pytest.approx(1 / 3)  # of three tokens; EOS is none


def test_attention_to_the_end_covers_nothing():
    weights = torch.zeros(1, 3, 4, dtype=torch.float64)
    weights[..., -1] = 1.0

    [head] = accumulate([weights], batch_size=1, num_heads=1)

    assert head.coverage == 0.0


def test_half_precision_is_summed_up_in_double():
    weights = torch.full((1, 1, 3000, 4), 0.25, dtype=torch.bfloat16)
    statistics = AttentionStatistics(1)
    source_mask = torch.ones(1, 4, dtype=torch.bool)
    target_mask = torch.ones(1, 3000, dtype=torch.bool)

    statistics.add(weights, source_mask=source_mask, target_mask=target_mask)

    [head] = statistics.heads(error_rates=None)
    assert head.entropy == pytest.approx(math.log(4), rel=1e-12)


def test_each_head_has_its_error_rate():
    statistics = AttentionStatistics(2)
    real = torch.ones(1, 2, dtype=torch.bool)
    statistics.add(torch.full((1, 2, 1, 2), 0.5), source_mask=real, target_mask=real[:, :1])

    heads = statistics.heads(error_rates=[0.25, 0.75])

    assert [head.alignment_error_rate for head in heads] == [0.25, 0.75]


def test_attention_without_heads_has_no_statistics():
    statistics = AttentionStatistics(0)

    statistics.add(
        torch.zeros(2, 0, 3, 5),
        source_mask=torch.ones(2, 5, dtype=torch.bool),
        target_mask=torch.ones(2, 3, dtype=torch.bool),
    )

    assert statistics.heads(error_rates=None) == []
    assert mean_over_heads([]) == {}


def test_means_are_taken_over_heads():
    heads = [HeadStatistics(1.0, 0.5, 0.25, 0.1), HeadStatistics(2.0, 0.75, 1.0, None)]

    assert mean_over_heads(heads) == {"entropy": 1.5, "coverage": 0.625, "sharpness": 0.625}


def test_merged_statistics_of_batches_are_those_of_one_after_the_other():
    alone, merged = AttentionStatistics(2), AttentionStatistics(2)
    for seed in range(3):
        weights = torch.randn(2, 2, 4, 3, generator=torch.Generator().manual_seed(seed)).softmax(-1)
        masks = {"source_mask": torch.ones(2, 3).bool(), "target_mask": torch.ones(2, 4).bool()}
        part = AttentionStatistics(2)
        part.add(weights, **masks)
        alone.add(weights, **masks)
        merged.merge(part)

    assert merged.heads(error_rates=None) == alone.heads(error_rates=None)
