"""Files that do not hold what their names or the configuration say are refused or reported."""

import codecs
import gzip
import logging
from pathlib import Path

import pytest

from seq2seq.data.files.checks import check_files, warn_if_swapped

TEXT = "Ein Hund l\u00e4uft.\nZwei M\u00e4nner.\n"


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_all_lines_are_counted_whatever_ends_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, ending: bytes
) -> None:
    monkeypatch.setattr("seq2seq.data.files.checks._CHUNK_SIZE", 3)
    path = tmp_path / f"a.tsv{suffix}"
    content = b"a\tb\n\nc\td" + ending
    path.write_bytes(gzip.compress(content) if suffix else content)

    assert check_files("train", [path]) == 3 + ending.count(b"\n") // 2


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF16_LE + "\u6771\u4eac\n".encode("utf-16-le"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
    ],
)
def test_utf16_is_named(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)

    with pytest.raises(ValueError, match="UTF-16") as caught:
        check_files("valid", [path])

    assert str(caught.value) == (
        f"data.valid={path}: the file is UTF-16, not UTF-8; convert it: "
        f"iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8"
    )


def test_some_zero_bytes_are_not_utf16(tmp_path: Path) -> None:
    path = tmp_path / "a.de"
    path.write_bytes(b"a\x00b\nab\n")

    assert check_files("train", [path]) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.en", "a.de"), ("a.en.gz", "a.de.gz"), ("en.en.txt", "b.de.txt")],
)
def test_swapped_files_are_reported(
    caplog: pytest.LogCaptureFixture, first: str, second: str
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_if_swapped("train", [Path(first), Path(second)], source="de", target="en")

    assert [record.getMessage() for record in caplog.records] == [
        f"data.train=[{first},{second}]: the names say that en is translated to de, but "
        "data.source=de and data.target=en; give the source first, or swap the two keys"
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["a.de", "a.en"],
        ["en/a.de", "de/a.en"],
        ["en", "de"],
        ["a.en"],
        ["a.en", "a.fr"],
        ["a.en.de", "a.de.en"],
        ["a.en", "b.en"],
    ],
)
def test_other_names_are_not_reported(caplog: pytest.LogCaptureFixture, names: list[str]) -> None:
    with caplog.at_level(logging.WARNING):
        warn_if_swapped("train", list(map(Path, names)), source="de", target="en")

    assert caplog.records == []


def test_names_say_nothing_if_both_sides_have_one_language(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_if_swapped("train", [Path("a.en"), Path("b.en")], source="en", target="en")

    assert caplog.records == []


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("before", "length", "is_refused"),
    [(0, 6, False), (0, 7, True), (5, 6, False), (5, 7, True), (3, 20, True)],
)
def test_a_line_over_the_limit_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    before: int,
    length: int,
    is_refused: bool,
) -> None:
    for name in ("_CHUNK_SIZE", "MAX_LINE"):
        monkeypatch.setattr(f"seq2seq.data.files.checks.{name}", 6)
    path = tmp_path / f"a.de{suffix}"
    content = b"b" * before + b"\n" + b"a" * length + b"\nc\n"
    path.write_bytes(gzip.compress(content) if suffix else content)

    if not is_refused:
        assert check_files("train", [path]) == 3
        return
    with pytest.raises(ValueError, match=rf"{path}:2: the line has more than"):
        check_files("train", [path])
