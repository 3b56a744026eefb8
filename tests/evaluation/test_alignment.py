import pytest
import torch
from tiny_attention import make_weights

from seq2seq.evaluation.alignment import argmax_links, diagonal_links, word_weights


def test_word_weights_are_means_over_heads_and_target_tokens_and_sums_over_source_tokens():
    source_words, target_words = [0, 1, 1, 2], [0, 0, 1]
    weights = make_weights(2, 4, 5)

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
    weights = make_weights(1, 4, 3)

    cut = word_weights(weights[:, :3], [0, 1], [0, 1, 2], target_tokens=["a", "b", "c"])
    whole = word_weights(weights, [0, 1], [0, 1, 2], target_tokens=["a", "b", "c"])

    torch.testing.assert_close(cut, whole)


def test_punctuation_counts_only_for_a_word_of_its_own():
    weights = make_weights(2, 5, 4)
    tokens = ["\N{LOWER ONE EIGHTH BLOCK}", "dog", ".", "!"]

    words = word_weights(weights, [0, 1, 2], [0, 0, 0, 1], target_tokens=tokens)

    torch.testing.assert_close(words, weights.mean(dim=0)[[1, 3], :3])


def test_each_target_word_is_linked_to_its_highest_weight_and_the_first_of_equal_ones():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])

    assert argmax_links(weights) == {(1, 0), (0, 1)}


def test_a_word_without_tokens_has_zeros_and_no_link_and_an_empty_translation_no_words():
    words = word_weights(make_weights(1, 3, 3), [0, 1], [0, 2], target_tokens=["a", "b"])
    empty = word_weights(make_weights(1, 1, 3), [0, 1], [], target_tokens=[])

    assert words[1].tolist() == [0.0, 0.0]
    assert {target for _, target in argmax_links(words)} == {0, 2}
    assert empty.shape == (0, 2)
    assert argmax_links(empty) == frozenset()


def test_the_diagonal_joins_both_ends():
    assert diagonal_links(5, 3) == {(0, 0), (2, 1), (4, 2)}
    assert diagonal_links(3, 1) == {(0, 0)}
    assert diagonal_links(1, 3) == {(0, 0), (0, 1), (0, 2)}
    assert diagonal_links(4, 4) == {(i, i) for i in range(4)}
    assert diagonal_links(0, 3) == diagonal_links(3, 0) == frozenset()
