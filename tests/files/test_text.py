import contextlib
import gzip
import io
import itertools
import os
import resource
import sys
import threading
import tracemalloc

import pytest

from seq2seq.files.text import (
    CHUNK,
    MAX_LINE,
    LineReader,
    open_lines,
    open_standard_input,
    parallel,
    read_lines,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot wait for a pipe")

LONG = b"\xc3\xa4" * CHUNK


@pytest.mark.parametrize("name", ["a.po", "b.de.JSON", "c.srt.gz"])
def test_a_file_of_another_format_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"x\n")

    with (
        pytest.raises(
            ValueError, match=r"^input=.*: a \.(po|json|srt) file is not plain text .* docs"
        ),
        open_lines(str(path), key="input"),
    ):
        pass


def lines_of(content: bytes) -> list[str]:
    return list(LineReader(io.BytesIO(content), name="input=a.txt"))


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
def test_lines_end_at_line_feeds_alone(content, lines):
    assert lines_of(content) == lines


def test_bytes_that_are_not_utf8_are_replaced_and_counted_in_one_warning(caplog):
    lines = lines_of(b"a\xffb\n" + "real \ufffd\n".encode() + b"\xc3\n")

    assert lines == ["a\ufffdb", "real \ufffd", "\ufffd"]
    [message] = caplog.messages
    assert message.startswith("input=a.txt: bytes that are not UTF-8")
    assert message.endswith("lines affected: 2 (the first: line 1)")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_of_utf16_is_an_error_before_any_line(encoding):
    content = io.BytesIO("\ufeffDer B\xe4r\nDie Katze\n".encode(encoding))

    with pytest.raises(ValueError) as caught:
        next(iter(LineReader(content, name="input=a.txt")))

    assert str(caught.value) == (
        "input=a.txt: the text is UTF-16, not UTF-8; convert it with iconv -f UTF-16 -t UTF-8"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"Der Hund.\rDie Katze.\rJa.\r",
        b"Der Hund.\rDie Katze.\r",
        b"Ja.\rNein.",
        b"\rJa.",
        b"Ja.\r\r",
    ],
)
def test_lines_that_end_in_carriage_returns_alone_are_an_error(content):
    with pytest.raises(ValueError, match=r"^input=a.txt: the lines .* tr '\\r' '\\n'"):
        lines_of(content)


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"a\rb\rc\n", ["a\rb\rc"]), (b"a\rb\n", ["a\rb"]), (b"a\r", ["a"]), (b"a\r\n", ["a"])],
)
def test_a_carriage_return_within_a_line_stays(content, lines):
    assert lines_of(content) == lines


def test_a_file_is_read_while_thousands_of_others_are_open(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("this user may not open 1,200 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    try:
        with contextlib.ExitStack() as others:
            for _ in range(1030):  # select.select takes numbers below 1,024 only
                others.enter_context(path.open("rb"))
            assert read_named(path) == ["a", "b"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@posix
def test_a_paused_pipe_has_no_more_lines_for_now():
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", 0) as file, os.fdopen(write_end, "wb", 0) as pipe:
        reader = LineReader(file, name="pipe")
        lines = iter(reader)

        before = reader.has_more()
        pipe.write(b"a\nb\n")
        first, in_buffer = next(lines), reader.has_more()
        second, at_pause = next(lines), reader.has_more()
        pipe.write(b"half of")
        at_half_a_line = reader.has_more()
        pipe.write(b" a line")
        pipe.close()
        before_the_last = reader.has_more()
        third, at_end = next(lines), reader.has_more()

        assert (first, second, third, list(lines)) == ("a", "b", "half of a line", [])
        assert (before, in_buffer, at_pause, at_half_a_line) == (False, True, False, False)
        assert (before_the_last, at_end) == (True, False)


@posix
def test_an_empty_non_blocking_pipe_has_not_ended():
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(read_end, "rb", 0) as file, os.fdopen(write_end, "wb", 0) as pipe:
        pipe.write(b"a\n")
        lines = iter(LineReader(file, name="pipe"))
        first = next(lines)
        writer = threading.Timer(0.02, lambda: (pipe.write(b"b\n"), pipe.close()))
        writer.start()

        assert [first, *lines] == ["a", "b"]


def test_closed_standard_input_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(OSError, match="standard input is closed; give input=FILE"):
        open_standard_input().__enter__()


def read_named(path):
    with open_lines(str(path), key="input") as lines:
        return list(lines)


@pytest.mark.parametrize("content", [b"", b"a\n\nb", b"\xef\xbb\xbfa\r\nb\xff\n", LONG + b"\na"])
def test_a_packed_file_is_read_as_a_plain_one(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))

    assert read_named(tmp_path / "a.txt.gz") == read_named(tmp_path / "a.txt")


WHOLE = gzip.compress(b"".join(b"%d\n" % (number * number) for number in range(9000)))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(WHOLE[:-5], id="cut"),
        pytest.param(WHOLE[:4], id="cut in its head"),
        pytest.param(WHOLE[:500] + b"\xff\0\xff" + WHOLE[503:], id="changed"),
        pytest.param(WHOLE[:-8] + b"\0\0\0\0" + WHOLE[-4:], id="wrong sum"),
        pytest.param(WHOLE + b"more", id="something behind it"),
        pytest.param(b"ein hund\n", id="plain"),
    ],
)
def test_a_damaged_packed_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)

    with pytest.raises(ValueError, match=r"^input=\S+a\.gz: ") as caught:
        read_named(tmp_path / "a.gz")

    assert "\n" not in str(caught.value)


def join(sources, references):
    return parallel(sources, references, names=("input=a.de", "reference=a.en"))


def test_parallel_lines_are_paired_including_empty_ones():
    assert list(join(["a", "", "c"], ["A", "B", ""])) == [("a", "A"), ("", "B"), ("c", "")]


@pytest.mark.parametrize(
    ("num_sources", "num_references", "message"),
    [
        (3, 2, "reference=a.en ends before line 3, but input=a.de goes on;"),
        (0, 1, "input=a.de ends before line 1, but reference=a.en goes on;"),
        (2, 5, "input=a.de ends before line 3, but reference=a.en goes on;"),
    ],
)
def test_the_longer_of_two_streams_is_an_error(num_sources, num_references, message):
    found, references = [], iter(["b"] * num_references)

    with pytest.raises(ValueError, match=message):
        found.extend(join(["a"] * num_sources, references))

    assert len(found) == min(num_sources, num_references)
    assert len(list(references)) == max(0, num_references - num_sources - 1)  # read no further


@pytest.mark.parametrize("end", [b"", b"\n", b"\nzwei\n"])
def test_a_line_over_the_limit_is_refused_when_it_is_its_turn(end):
    longest = b"x" * MAX_LINE
    reader = LineReader(io.BytesIO(longest + b"\n" + longest + b"y" + end), name="input=a")

    lines = iter(reader)
    assert next(lines).encode() == longest
    with pytest.raises(ValueError, match=r"^input=a:2: the line has more than 1,048,576 bytes"):
        next(lines)


def test_a_line_without_end_is_not_read_to_its_end():
    source = io.BytesIO(b"x" * 9 * MAX_LINE)

    with pytest.raises(ValueError, match="the limit"):
        next(iter(LineReader(source, name="input=a")))

    assert source.tell() < 2 * MAX_LINE


def test_a_gzip_bomb_is_unpacked_piece_by_piece(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"a\n" * 50_000_000, compresslevel=1))
    tracemalloc.start()

    with open_lines(str(path), key="input") as reader:
        lines = list(itertools.islice(reader, 1000))
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert lines == ["a"] * 1000
    assert peak < 30_000_000


def test_own_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "test.hyp"
    path.write_bytes("a\rb\u2028c\n\nd\n".encode())

    assert read_lines(path) == ["a\rb\u2028c", "", "d"]
