"""Links are written and read in Pharaoh's format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.files.links import GoldLinks, check_links, format_links, parse_links, read_links

LINKS = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def test_links_are_written_in_order():
    assert format_links({(10, 1), (2, 3), (2, 0)}) == "2-0 2-3 10-1"
    assert format_links([]) == ""


@given(sure=LINKS, others=LINKS)
def test_formatted_links_are_parsed_back(sure, others):
    gold = GoldLinks(sure, sure | others)

    assert parse_links(str(gold), where="a:1") == gold
    assert parse_links(format_links(sure), where="a:1") == GoldLinks(sure, sure)


@pytest.mark.parametrize(
    "item", ["1_2", "1-", "-1-2", "1-2-3", "a-b", "1P2", "\u0661-2", "1 - 2", "\udcff"]
)
def test_an_invalid_link_is_an_error_with_file_and_line(item, tmp_path):
    path = tmp_path / "gold.align"
    path.write_bytes(f"0-0\n\n0-1 {item}\n".encode(errors="surrogateescape"))

    with pytest.raises(ValueError, match=r"gold\.align:3: .* is not a link") as error:
        list(read_links(str(path)))

    assert "\n" not in str(error.value)


def test_a_file_may_count_from_1(tmp_path):
    path = tmp_path / "gold.align"
    path.write_bytes(b"1-1 2p3\n\n0-1\n")
    links = read_links(str(path), base=1)

    assert next(links) == GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))
    assert next(links) == GoldLinks(frozenset(), frozenset())
    with pytest.raises(ValueError, match=r"gold\.align:3: '0-1' is not a link"):
        next(links)


@pytest.mark.parametrize(("text", "link"), [("1-1 4-1", "4-1"), ("1p3 3-2", "1-3")])
def test_a_link_outside_the_sentence_pair_is_an_error_with_its_place(text, link):
    gold = parse_links(text, where="a:7", base=1)

    check_links(gold, 4, 3, where="a:7", base=1)
    with pytest.raises(ValueError, match=f"^a:7: link {link} lies outside .* counted from 1$"):
        check_links(gold, 3, 2, where="a:7", base=1)
