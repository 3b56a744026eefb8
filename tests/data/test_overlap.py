"""Pairs that a corpus shares with the training text are counted exactly."""

import random

import numpy as np

from seq2seq.data import EncodedCorpus
from seq2seq.data.id_rows import IdRows
from seq2seq.data.overlap import count_shared_pairs
from seq2seq.special_tokens import UNK

Row = list[int]


def encoded(pairs: list[tuple[Row, Row]]) -> EncodedCorpus:
    def rows(side: int) -> IdRows:
        ids = [number for pair in pairs for number in pair[side]]
        lengths = [len(pair[side]) for pair in pairs]
        return IdRows(np.array(ids, dtype=np.int32), np.cumsum([0, *lengths]))

    return EncodedCorpus(rows(0), rows(1), np.arange(len(pairs)))


def test_the_count_is_that_of_a_loop_over_all_pairs():
    draw = random.Random(3)

    def row() -> Row:
        return [draw.randint(4, 6) for _ in range(draw.randint(0, 3))]

    train = [(row(), row()) for _ in range(400)]
    other = [(row(), row()) for _ in range(200)]
    expected = sum(pair in train for pair in other)

    assert 0 < expected < 200
    assert count_shared_pairs(encoded(other), encoded(train)) == expected


def test_pairs_of_the_same_ends_or_with_exchanged_sides_are_others():
    train = encoded([([4, 5, 6], [7]), ([], [4])])

    assert count_shared_pairs(encoded([([4, 9, 6], [7]), ([7], [4, 5, 6])]), train) == 0
    assert count_shared_pairs(encoded([([4], []), ([], [4])]), train) == 1


def test_every_copy_counts():
    train = encoded([([4], [5]), ([4], [5])])

    assert count_shared_pairs(encoded([([4], [5])] * 3), train) == 3


def test_pairs_with_unknown_tokens_do_not_count():
    train = encoded([([4, UNK], [5]), ([4], [UNK]), ([4], [5])])

    assert count_shared_pairs(encoded([([4, UNK], [5]), ([4], [UNK]), ([4], [5])]), train) == 1
