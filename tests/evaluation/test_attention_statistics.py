"""The statistics of heads are those of their definitions."""

import math

import pytest
import torch

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


def accumulate(sentences, *, num_heads=NUM_HEADS):
    statistics = AttentionStatistics(num_heads)
    for weights in sentences:
        statistics.add(weights)
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


def test_statistics_are_those_of_the_definitions():
    heads = accumulate(SENTENCES)

    for number, head in enumerate(heads):
        assert head[:3] == pytest.approx(expected(SENTENCES, number), rel=1e-12)
    assert len({head.entropy for head in heads}) == NUM_HEADS


@pytest.mark.parametrize(
    ("weights", "statistics"),
    [
        (torch.eye(4), (0.0, 1.0, 1.0)),
        (torch.full((3, 5), 0.2), (math.log(5), 3 / 5, 1 / 5)),
        (torch.eye(4)[[1] * 6], (0.0, 1 / 3, 1.0)),  # one of three source tokens; EOS is none
        (torch.eye(4)[[3] * 3], (0.0, 0.0, 1.0)),
    ],
    ids=["diagonal", "uniform", "one token", "end"],
)
def test_simple_weights_have_known_statistics(weights, statistics):
    [head] = accumulate([weights.double().unsqueeze(0)], num_heads=1)

    assert head == (*map(pytest.approx, statistics), None)


def test_half_precision_is_summed_up_in_double():
    [head] = accumulate([torch.full((1, 3000, 4), 0.25, dtype=torch.bfloat16)], num_heads=1)

    assert head.entropy == pytest.approx(math.log(4), rel=1e-12)


def test_each_head_has_its_error_rate():
    statistics = AttentionStatistics(2)
    statistics.add(torch.full((2, 1, 2), 0.5))

    heads = statistics.heads(error_rates=[0.25, 0.75])

    assert [head.alignment_error_rate for head in heads] == [0.25, 0.75]


def test_attention_without_heads_has_no_statistics():
    assert accumulate([torch.zeros(0, 3, 5)], num_heads=0) == []
    assert mean_over_heads([]) == {}


def test_means_are_taken_over_heads():
    heads = [HeadStatistics(1.0, 0.5, 0.25, 0.1), HeadStatistics(2.0, 0.75, 1.0, None)]

    assert mean_over_heads(heads) == {"entropy": 1.5, "coverage": 0.625, "sharpness": 0.625}


def test_merged_statistics_are_those_of_one_after_the_other():
    merged = AttentionStatistics(NUM_HEADS)
    for sentence in SENTENCES:
        part = AttentionStatistics(NUM_HEADS)
        part.add(sentence)
        merged.merge(part)

    assert merged.heads(error_rates=None) == accumulate(SENTENCES)
