import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.evaluation.alignment import (
    STATISTICS,
    Agreement,
    AttentionStatistics,
    HeadStatistics,
    alignment_error_rate,
    argmax_links,
    diagonal_links,
    mean_over_heads,
    word_links,
    word_weights,
)
from seq2seq.files.links import GoldLinks

LINKS = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def random_weights(num_heads, num_rows, num_columns):
    generator = torch.Generator().manual_seed(4)
    return torch.rand(num_heads, num_rows, num_columns, generator=generator).softmax(dim=-1)


def test_word_weights_are_means_over_heads_and_target_tokens_and_sums_over_source_tokens():
    source_words, target_words = [0, 1, 1, 2], [0, 0, 1]
    weights = random_weights(2, 4, 5)

    words = word_weights(weights, source_words, target_words, target_tokens=["a", "b", "c"])

    assert words.shape == (2, 3)
    for target in range(2):
        for source in range(3):
            rows = [row for row in range(3) if target_words[row] == target]
            columns = [column for column in range(4) if source_words[column] == source]
            total = sum(
                weights[head, row, column].item()
                for head in range(2)
                for row in rows
                for column in columns
            )
            assert words[target, source].item() == pytest.approx(total / (2 * len(rows)))


def test_an_unfinished_target_has_no_row_of_eos():
    weights = random_weights(1, 4, 3)

    cut = word_weights(weights[:, :3], [0, 1], [0, 1, 2], target_tokens=["a", "b", "c"])
    whole = word_weights(weights, [0, 1], [0, 1, 2], target_tokens=["a", "b", "c"])

    torch.testing.assert_close(cut, whole)


def test_punctuation_is_left_out_of_a_word_with_other_tokens():
    weights = random_weights(2, 4, 4)

    words = word_weights(
        weights, [0, 1, 2], [0, 0, 0], target_tokens=["\N{LOWER ONE EIGHTH BLOCK}", "dog", "."]
    )

    torch.testing.assert_close(words, weights.mean(dim=0)[1:2, :3])


def test_punctuation_counts_for_a_word_of_its_own():
    weights = random_weights(1, 3, 3)

    words = word_weights(weights, [0, 1], [0, 1], target_tokens=["dog", "."])

    torch.testing.assert_close(words, weights[0, :2, :2])


def test_a_word_without_tokens_has_zeros_and_no_link():
    weights = random_weights(1, 3, 3)

    words = word_weights(weights, [0, 1], [0, 2], target_tokens=["a", "b"])

    assert words[1].tolist() == [0.0, 0.0]
    assert {target for _, target in argmax_links(words)} == {0, 2}


def test_an_empty_translation_has_no_words():
    words = word_weights(random_weights(1, 1, 3), [0, 1], [], target_tokens=[])

    assert words.shape == (0, 2)
    assert argmax_links(words) == frozenset()


def test_weights_without_heads_are_an_error():
    with pytest.raises(ValueError, match="without heads"):
        word_weights(torch.zeros(0, 2, 2), [0], [0], target_tokens=["a"])


def test_word_links_are_those_of_the_highest_word_weights():
    weights = random_weights(3, 5, 6)
    words = {"source_words": [0, 0, 1, 2, 2], "target_words": [0, 1, 1, 2]}
    labels = ["a", "b", ".", "c"]

    links = word_links(weights, **words, target_tokens=labels)

    assert links == argmax_links(word_weights(weights, **words, target_tokens=labels))
    assert {target for _, target in links} == {0, 1, 2}


def test_each_target_word_is_linked_to_its_highest_weight_and_the_first_of_equal_ones():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])

    assert argmax_links(weights) == {(1, 0), (0, 1)}


def test_the_diagonal_joins_both_ends():
    assert diagonal_links(5, 3) == {(0, 0), (2, 1), (4, 2)}
    assert diagonal_links(3, 1) == {(0, 0)}
    assert diagonal_links(1, 3) == {(0, 0), (0, 1), (0, 2)}
    assert diagonal_links(4, 4) == {(i, i) for i in range(4)}
    assert diagonal_links(0, 3) == diagonal_links(3, 0) == frozenset()


def test_error_rate_sums_over_the_corpus_before_it_divides():
    predicted = [frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0)})]
    gold = [
        GoldLinks(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0), (1, 1)})),
        GoldLinks(sure=frozenset({(1, 0), (0, 1)}), possible=frozenset({(1, 0), (0, 1)})),
    ]

    # |A & S| = 1 + 0, |A & P| = 2 + 0, |A| = 3 + 1, |S| = 1 + 2
    assert alignment_error_rate(predicted, gold) == pytest.approx(1 - 3 / 7)


def test_agreement_counts_over_the_corpus_by_the_definitions():
    agreement = Agreement()
    sure, possible = frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})
    links = frozenset({(1, 0), (0, 1), (2, 2)})

    agreement.add(frozenset({(0, 0), (1, 1), (2, 2)}), GoldLinks(sure, possible))
    agreement.add(frozenset({(1, 0), (5, 5)}), GoldLinks(links, links))

    # |A & P| = 2 + 1, |A| = 3 + 2, |A & S| = 1 + 1, |S| = 1 + 3
    assert agreement.precision == pytest.approx(3 / 5)
    assert agreement.recall == pytest.approx(2 / 4)
    assert agreement.error_rate == pytest.approx(1 - (2 + 3) / (5 + 4))
    assert agreement.num_links == 5


@settings(max_examples=30)
@given(sentences=st.lists(st.tuples(LINKS, LINKS, LINKS), max_size=5))
def test_shares_lie_between_0_and_1_or_are_nan_without_links(sentences):
    agreement = Agreement()
    for links, sure, possible in sentences:
        agreement.add(links, GoldLinks(sure, possible))

    num_links, num_sure = (sum(len(each[part]) for each in sentences) for part in (0, 1))
    shares = (agreement.precision, agreement.recall, agreement.error_rate)
    for share, whole in zip(shares, (num_links, num_sure, num_links + num_sure), strict=True):
        assert 0 <= share <= 1 if whole else math.isnan(share)


def test_error_rate_counts_sure_links_as_possible():
    gold = GoldLinks(sure=frozenset({(0, 0)}), possible=frozenset())

    assert alignment_error_rate([frozenset({(0, 0)})], [gold]) == 0


@given(links=LINKS.filter(bool))
def test_error_rate_is_0_for_the_gold_links_and_1_for_none_of_them(links):
    gold = [GoldLinks(links, links)]
    others = frozenset((source + 50, target) for source, target in links)

    assert alignment_error_rate([links], gold) == 0
    assert alignment_error_rate([others], gold) == 1


def test_error_rate_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no links"):
        alignment_error_rate([frozenset()], [GoldLinks(frozenset(), frozenset())])


def test_error_rate_refuses_different_counts():
    with pytest.raises(ValueError, match="shorter"):
        alignment_error_rate([frozenset()], [])


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
    entropies, sharpnesses, coverages, ends, jumps = [], [], [], [], []
    for rows in (each[head].tolist() for each in sentences):
        for row in rows:
            entropies.append(-sum(weight * math.log(weight) for weight in row if weight > 0))
            sharpnesses.append(max(row))
            ends.append(row[-1])
        places = [row.index(max(row)) for row in rows]
        jumps += [after < before for before, after in itertools.pairwise(places)]
        for column in range(len(rows[0]) - 1):  # the last is EOS
            coverages.append(min(1.0, sum(row[column] for row in rows)))
    found = entropies, coverages, sharpnesses, ends, jumps
    return [sum(each) / len(each) for each in found]


def test_statistics_are_those_of_the_definitions():
    heads = accumulate(SENTENCES)

    for number, head in enumerate(heads):
        found = [getattr(head, name) for name in STATISTICS]
        assert found == pytest.approx(expected(SENTENCES, number), rel=1e-12)
    assert len({head.entropy for head in heads}) == NUM_HEADS


@pytest.mark.parametrize(
    ("weights", "statistics"),
    [
        (torch.eye(4), (0.0, 1.0, 1.0, 1 / 4, 0.0)),
        (torch.full((3, 5), 0.2), (math.log(5), 3 / 5, 1 / 5, 1 / 5, 0.0)),
        # One of three source tokens; EOS is none.
        (torch.eye(4)[[1] * 6], (0.0, 1 / 3, 1.0, 0.0, 0.0)),
        (torch.eye(4)[[3] * 3], (0.0, 0.0, 1.0, 1.0, 0.0)),
        (torch.eye(3)[[1, 0, 2, 0]], (0.0, 1.0, 1.0, 1 / 4, 2 / 3)),
    ],
    ids=["diagonal", "uniform", "one token", "end", "to and fro"],
)
def test_simple_weights_have_known_statistics(weights, statistics):
    [head] = accumulate([weights.double().unsqueeze(0)], num_heads=1)

    assert head == (*map(pytest.approx, statistics[:3]), None, *map(pytest.approx, statistics[3:]))


def test_half_precision_is_summed_up_in_double():
    [head] = accumulate([torch.full((1, 3000, 4), 0.25, dtype=torch.bfloat16)], num_heads=1)

    assert head.entropy == pytest.approx(math.log(4), rel=1e-12)


def test_attention_without_heads_has_no_statistics():
    assert accumulate([torch.zeros(0, 3, 5)], num_heads=0) == []
    assert mean_over_heads([]) == {}


def test_means_are_taken_over_heads():
    heads = [
        HeadStatistics(1.0, 0.5, 0.25, 0.1, 0.5, 0.0),
        HeadStatistics(2.0, 0.75, 1.0, None, 0.25, 1.0),
    ]

    means = {"entropy": 1.5, "coverage": 0.625, "sharpness": 0.625, "end": 0.375, "backward": 0.5}
    assert mean_over_heads(heads) == means


def test_merged_statistics_are_those_of_one_after_the_other():
    merged = AttentionStatistics(NUM_HEADS)
    for sentence in SENTENCES:
        part = AttentionStatistics(NUM_HEADS)
        part.add(sentence)
        merged.merge(part)

    assert merged.heads(error_rates=None) == accumulate(SENTENCES)
    rates = [0.25, 0.5, 0.75]
    assert [head.alignment_error_rate for head in merged.heads(error_rates=rates)] == rates
