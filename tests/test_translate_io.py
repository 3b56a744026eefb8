import json
import logging
import math
import os
import stat
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.translate_config import OutputFormat
from seq2seq.translate_io import (
    CHUNK,
    LineReader,
    format_forced,
    format_translation,
    open_output,
    parallel,
)
from seq2seq.translation import TranslatedHypothesis, Translation

LONG = b"\xc3\xa4" * CHUNK


def read(path):
    with path.open("rb", buffering=0) as file:
        return list(LineReader(file, name="input=a.txt"))


def make_translation(*texts):
    hypotheses = [
        TranslatedHypothesis(
            text=text,
            score=-1.5 - rank,
            log_probability=-3.0,
            finished=True,
            ids=[5],
            pieces=["a", "</s>"],
            weights=torch.tensor([[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]]),
        )
        for rank, text in enumerate(texts)
    ]
    return Translation("Bär \u2028 x", [4, 5], ["B", "x", "</s>"], hypotheses)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\x0cc\x0bd\n", ["a\rb\x0cc\x0bd"]),
        ("a\u2028b\u2029c\u0085d\n".encode(), ["a\u2028b\u2029c\u0085d"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\0b\n", ["a\0b"]),
        (LONG + b"\n" + LONG, ["\xe4" * CHUNK] * 2),
    ],
)
def test_lines_end_at_line_feeds_alone(tmp_path, content, lines):
    path = tmp_path / "a.txt"
    path.write_bytes(content)

    assert read(path) == lines


@given(content=st.binary(max_size=60).map(lambda content: content.replace(b"A", b"\n")))
def test_there_are_as_many_lines_as_line_feeds_whatever_the_bytes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "a.txt"
    path.write_bytes(content)

    is_unended = bool(content) and not content.endswith(b"\n")
    assert len(read(path)) == content.count(b"\n") + is_unended


def test_bytes_that_are_no_text_are_replaced_and_counted_in_one_warning(tmp_path, caplog):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xffb\n" + "real \ufffd\n".encode() + b"\xc3\n")

    with caplog.at_level(logging.WARNING):
        lines = read(path)

    assert lines == ["a\ufffdb", "real \ufffd", "\ufffd"]
    [record] = caplog.records
    assert "input=a.txt: 2 lines" in record.getMessage()


def test_text_without_faults_is_read_without_a_warning(tmp_path, caplog):
    (tmp_path / "a.txt").write_bytes("B\xe4r\n".encode())

    read(tmp_path / "a.txt")

    assert caplog.records == []


def test_a_pipe_tells_whether_it_pauses():
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", 0) as file, os.fdopen(write_end, "wb", 0) as pipe:
        reader = LineReader(file, name="pipe")
        lines = iter(reader)

        before = reader.has_more()
        pipe.write(b"a\nb\n")
        first, in_buffer = next(lines), reader.has_more()
        second, at_pause = next(lines), reader.has_more()
        pipe.close()
        at_end = reader.has_more()

        assert (first, second, list(lines)) == ("a", "b", [])
        assert (before, in_buffer, at_pause, at_end) == (False, True, False, True)


def join(sources, references):
    return parallel(sources, references, names=("input=a.de", "reference=a.en"))


def test_parallel_lines_are_joined_empty_ones_too():
    assert list(join(["a", "", "c"], ["A", "B", ""])) == [("a", "A"), ("", "B"), ("c", "")]


@pytest.mark.parametrize(("num_sources", "num_references"), [(3, 2), (0, 1), (2, 5)])
def test_streams_of_different_length_are_an_error_with_both_counts(num_sources, num_references):
    joined = join(["a"] * num_sources, ["b"] * num_references)
    pattern = f"input=a.de has {num_sources} lines but reference=a.en has {num_references};"
    found = []

    with pytest.raises(ValueError, match=pattern):
        found.extend(joined)

    assert len(found) == min(num_sources, num_references)


def test_a_file_gets_its_name_only_when_it_is_complete(tmp_path):
    path = tmp_path / "out.txt"

    with open_output(str(path), key="output") as file:
        file.write(b"a\n")
        file.flush()
        assert not path.exists()

    assert path.read_bytes() == b"a\n"
    assert os.listdir(tmp_path) == ["out.txt"]  # noqa: PTH208


def test_a_crash_leaves_the_file_of_before_and_nothing_else(tmp_path):
    path = tmp_path / "out.txt"
    path.write_bytes(b"before")

    with pytest.raises(RuntimeError), open_output(str(path), key="output") as file:
        file.write(b"half")
        raise RuntimeError

    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["out.txt"]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()

    with open_output(str(tmp_path / "out.txt"), key="output"):
        pass

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "out.txt")]
    assert modes[0] == modes[1]


def test_a_device_is_written_to_and_not_replaced():
    with open_output(os.devnull, key="output") as file:
        file.write(b"a\n")

    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


def test_no_path_means_standard_output(capfdbinary):
    with open_output(None, key="output") as file:
        assert file is sys.stdout.buffer


@pytest.mark.parametrize("path", ["missing/out.txt", "."])
def test_a_path_that_cannot_be_written_is_named_with_its_key(tmp_path, path):
    with (
        pytest.raises(OSError, match="alignments="),
        open_output(str(tmp_path / path), key="alignments"),
    ):
        pass


def test_text_is_the_best_hypothesis():
    content = format_translation(OutputFormat.text, make_translation("ein B\xe4r", "x"), index=4)

    assert content == "ein B\xe4r\n".encode()


def test_nbest_has_the_input_line_the_text_and_the_score_of_each_hypothesis():
    content = format_translation(OutputFormat.nbest, make_translation("a b", ""), index=4)

    assert content == b"4 ||| a b ||| -1.500000\n4 |||  ||| -2.500000\n"


def test_json_is_one_line_with_all_there_is():
    translation = make_translation("a\u2028b", "c")

    content = format_translation(OutputFormat.json, translation, index=4)

    assert content.count(b"\n") == 1
    fields = json.loads(content)
    assert fields["source"] == translation.source
    assert fields["source_pieces"] == translation.source_pieces
    first, second = fields["hypotheses"]
    assert (first["text"], second["text"]) == ("a\u2028b", "c")
    assert (first["score"], second["score"]) == (-1.5, -2.5)
    assert first["finished"] is True
    assert first["pieces"] == ["a", "</s>"]
    assert first["attention"] == [[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]]
    assert math.isclose(first["log_probability"], -3.0)


def test_the_text_of_a_forced_translation_is_its_log_probability():
    content = format_forced(OutputFormat.text, make_translation("ein B\xe4r"), index=4)

    assert content == b"-3.0000\n"


@pytest.mark.parametrize("output_format", [OutputFormat.nbest, OutputFormat.json])
def test_other_formats_of_a_forced_translation_are_those_of_a_found_one(output_format):
    translation = make_translation("a b")

    forced = format_forced(output_format, translation, index=4)

    assert forced == format_translation(output_format, translation, index=4)


@pytest.mark.parametrize("output_format", OutputFormat)
def test_a_lone_surrogate_does_not_stop_the_output(output_format):
    content = format_translation(output_format, make_translation("a\ud800"), index=0)

    assert content.decode("utf-8").count("\n") == 1
