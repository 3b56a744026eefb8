"""Lines of text are read from disk as they were written."""

from pathlib import Path

import pytest

from seq2seq.data.text_rows import TextRows, TextWriter

LINES = ["ein Hund", "", "M\u00fcller \U0001f600", "a\nb\u2028c", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with TextWriter(tmp_path, "source") as writer:
        for line in LINES:
            writer.write(line)
    return tmp_path


@pytest.mark.parametrize(("start", "end"), [(0, 5), (0, 1), (1, 4), (2, 3), (4, 5), (3, 3)])
def test_any_range_of_lines_is_read_back(folder: Path, start: int, end: int) -> None:
    rows = TextRows.open(folder, "source")

    assert len(rows) == 5
    assert rows.lines(start, end) == LINES[start:end]


def test_empty_lines_alone_are_read_back(tmp_path: Path) -> None:
    with TextWriter(tmp_path, "target") as writer:
        writer.write("")

    assert TextRows.open(tmp_path, "target").lines(0, 1) == [""]
