"""Links between words become links between tokens, and those a guide for each batch."""

from pathlib import Path

import numpy as np
import pytest

from seq2seq.data import TokenLinks, link_tokens
from seq2seq.data.token_links import LinkedTokens

ROWS = [[(0, 1), (0, 2), (2, 0)], [], [(1, 3)], [(0, 0), (1, 1), (1, 2), (1, 3)]]
"""(target token, source token) of four pairs"""


def linked(pairs: list[tuple[int, int]]) -> LinkedTokens:
    targets, sources = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return LinkedTokens(targets, sources, num_lost=0)


def as_set(tokens: LinkedTokens) -> set[tuple[int, int]]:
    return set(zip(tokens.targets.tolist(), tokens.sources.tolist(), strict=True))


def test_every_token_of_a_word_is_linked_to_every_token_of_the_other() -> None:
    tokens = link_tokens({(1, 0)}, source_words=[0, 1, 1, 2], target_words=[0, 0, 0, 1])

    assert as_set(tokens) == {(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)}


def test_a_word_with_several_links_is_linked_to_all_their_tokens() -> None:
    tokens = link_tokens({(0, 1), (2, 1)}, source_words=[0, 1, 2, 2], target_words=[0, 1])

    assert as_set(tokens) == {(1, 0), (1, 2), (1, 3)}


def test_a_word_without_tokens_is_linked_to_none() -> None:
    tokens = link_tokens({(1, 0), (3, 0), (0, 5)}, source_words=[0, 2], target_words=[0])

    assert as_set(tokens) == set()
    assert tokens.num_lost == 3


def test_a_side_without_tokens_has_no_links() -> None:
    assert as_set(link_tokens({(0, 0)}, source_words=[], target_words=[0])) == set()
    assert as_set(link_tokens({(0, 0)}, source_words=[0], target_words=[])) == set()


@pytest.mark.parametrize("rows", [[0], [1], [3, 1, 0], [2, 2], [1, 1]])
def test_a_guide_shares_one_equally_among_the_linked_tokens(rows: list[int]) -> None:
    links = TokenLinks.of(linked(row) for row in ROWS)

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

    digests = {TokenLinks.of(map(linked, rows)).digest() for rows in (ROWS, ROWS, *others)}

    assert len(digests) == 5


def test_opened_links_equal_the_saved_ones(tmp_path: Path) -> None:
    links = TokenLinks.of(linked(row)._replace(num_lost=2) for row in ROWS)

    links.save(tmp_path)

    opened = TokenLinks.open(tmp_path)
    assert opened.digest() == links.digest()
    assert opened.num_lost == 2 * len(ROWS)
    assert isinstance(opened.sources.base, np.memmap)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("name", ["targets", "sources", "offsets", "num_lost"])
def test_a_full_disk_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/dev/full")

    with pytest.raises(OSError, match=name) as error:
        TokenLinks.of(map(linked, ROWS)).save(tmp_path)

    assert error.value.filename == str(tmp_path / name)
