"""Rows of ids are read from disk as they were written."""

import numpy as np
import pytest

from seq2seq.data.id_rows import IdRows, RowWriter, map_array

ROWS = [[7, 5, 9], [], [4]]


@pytest.fixture
def folder(tmp_path):
    with RowWriter(tmp_path, "source") as writer:
        writer.write(ROWS[:2])
        writer.write(ROWS[2:])
    return tmp_path


def test_rows_written_in_parts_are_read_back(folder):
    rows = IdRows.open(folder, "source")

    assert [rows[i].tolist() for i in range(3)] == ROWS
    assert rows.lengths.tolist() == [3, 0, 1]


def test_writing_returns_the_concatenated_ids(tmp_path):
    with RowWriter(tmp_path, "target") as writer:
        ids = writer.write(ROWS)

    assert ids.tolist() == [7, 5, 9, 4]


def test_an_empty_file_is_an_empty_array(tmp_path):
    (tmp_path / "none").touch()

    assert map_array(tmp_path / "none", np.int64).shape == (0,)


def test_mapped_ids_cannot_be_changed(folder):
    rows = IdRows.open(folder, "source")

    with pytest.raises(ValueError, match="read-only"):
        rows.ids[0] = 1
