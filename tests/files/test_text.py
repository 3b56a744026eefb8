import gzip

import pytest

from seq2seq.files.text import is_gzip, open_text


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
