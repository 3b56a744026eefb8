"""Links between words become links between their pieces, and those a guide for each batch."""

from pathlib import Path

import numpy as np
import pytest

from seq2seq.data import PieceLinks, link_pieces
from seq2seq.data.piece_links import LinkedPieces

ROWS = [[(0, 1), (0, 2), (2, 0)], [], [(1, 3)], [(0, 0), (1, 1), (1, 2), (1, 3)]]
"""(target piece, source piece) of four pairs"""


def linked(pairs: list[tuple[int, int]]) -> LinkedPieces:
    targets, sources = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return LinkedPieces(targets, sources, num_lost=0)


def as_set(pieces: LinkedPieces) -> set[tuple[int, int]]:
    return set(zip(pieces.targets.tolist(), pieces.sources.tolist(), strict=True))


def test_every_piece_of_a_word_is_linked_to_every_piece_of_the_other() -> None:
    pieces = link_pieces({(1, 0)}, source_words=[0, 1, 1, 2], target_words=[0, 0, 0, 1])

    assert as_set(pieces) == {(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)}


def test_a_word_with_several_links_looks_at_all_of_their_pieces() -> None:
    pieces = link_pieces({(0, 1), (2, 1)}, source_words=[0, 1, 2, 2], target_words=[0, 1])

    assert as_set(pieces) == {(1, 0), (1, 2), (1, 3)}


def test_a_word_without_pieces_is_linked_to_none() -> None:
    pieces = link_pieces({(1, 0), (3, 0), (0, 5)}, source_words=[0, 2], target_words=[0])

    assert as_set(pieces) == set()
    assert pieces.num_lost == 3


def test_a_side_without_pieces_has_no_links() -> None:
    assert as_set(link_pieces({(0, 0)}, source_words=[], target_words=[0])) == set()
    assert as_set(link_pieces({(0, 0)}, source_words=[0], target_words=[])) == set()


@pytest.mark.parametrize("rows", [[0], [1], [3, 1, 0], [2, 2], [1, 1]])
def test_a_guide_shares_one_equally_among_the_linked_pieces(rows: list[int]) -> None:
    links = PieceLinks.of(linked(row) for row in ROWS)

    guide = links.guide(np.array(rows), size=(4, 5))

    expected = np.zeros((len(rows), 4, 5))
    for place, row in enumerate(rows):
        for target, source in ROWS[row]:
            share = sum(1 for other, _ in ROWS[row] if other == target)
            expected[place, target, source] = 1 / share
    assert guide.dtype == np.float32
    np.testing.assert_allclose(guide, expected, rtol=1e-6)


def test_the_digest_changes_with_any_link_and_its_row() -> None:
    others = [
        [*ROWS[:3], [(0, 0)]],
        [ROWS[1], ROWS[0], *ROWS[2:]],
        [[(0, 1), (0, 3), (2, 0)], *ROWS[1:]],
        [[(0, 1), (1, 2), (2, 0)], *ROWS[1:]],
    ]

    digests = {PieceLinks.of(map(linked, rows)).digest() for rows in (ROWS, ROWS, *others)}

    assert len(digests) == 5


def test_links_that_are_opened_are_those_that_were_saved(tmp_path: Path) -> None:
    links = PieceLinks.of(linked(row)._replace(num_lost=2) for row in ROWS)

    links.save(tmp_path)

    opened = PieceLinks.open(tmp_path)
    assert opened.digest() == links.digest()
    assert opened.num_lost == 2 * len(ROWS)
    assert isinstance(opened.sources.base, np.memmap)


@pytest.mark.parametrize("name", ["sources", "offsets"])
def test_damaged_links_are_named(tmp_path: Path, name: str) -> None:
    PieceLinks.of(map(linked, ROWS)).save(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-8])

    with pytest.raises(OSError, match=r"its arrays are damaged; delete it and start again"):
        PieceLinks.open(tmp_path)
