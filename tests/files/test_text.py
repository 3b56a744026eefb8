import gzip

import pytest

from seq2seq.files.text import decode_line, is_gzip, open_text, read_lines


@pytest.mark.parametrize("name", ["plain.txt", "packed.txt.gz"])
def test_text_is_read_as_bytes_whether_plain_or_packed(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"a\r\nb\x85c\n") if is_gzip(path) else b"a\r\nb\x85c\n")

    with open_text(path) as file:
        assert list(file) == [b"a\r\n", b"b\x85c\n"]


@pytest.mark.parametrize(
    "content", [gzip.compress(b"text\n" * 100)[:-9], b"text\n"], ids=["cut", "plain"]
)
def test_damaged_gzip_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "packed.gz"
    path.write_bytes(content)

    error = pytest.raises(ValueError, match=r"packed\.gz: damaged or incomplete gzip file")
    with error, open_text(path) as file:
        file.read()


@pytest.mark.parametrize(
    ("line", "number", "text"),
    [
        (b"a\n", 1, "a"),
        (b"a\r\n", 2, "a"),
        (b"a\r\r\n", 2, "a\r"),
        (b"\xef\xbb\xbfa", 1, "a"),
        (b"\xef\xbb\xbfa", 2, "\ufeffa"),
        (b"", 1, ""),
    ],
)
def test_line_end_and_first_byte_order_mark_are_removed(line, number, text):
    assert decode_line(line, number=number) == text


def test_bytes_that_are_not_utf8_are_refused_or_replaced():
    with pytest.raises(UnicodeDecodeError):
        decode_line(b"a\xff\n", number=1)

    assert decode_line(b"a\xff\n", number=1, errors="replace") == "a\ufffd"


def test_own_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "test.hyp"
    path.write_bytes("a\rb\u2028c\n\nd\n".encode())

    assert read_lines(path) == ["a\rb\u2028c", "", "d"]
