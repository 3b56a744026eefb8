import gzip
import json
import os
import tracemalloc

import pytest
from tiny_translator import SENTENCES, make_translate_config

from seq2seq.cli import translate as command
from seq2seq.cli.translate import translate
from seq2seq.cli.translate_config import OutputFormat, UnknownTokens
from seq2seq.files.lock import DirectoryInUseError, DirectoryLock

LINES = SENTENCES * 3  # 24


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(autouse=True)
def short_windows(monkeypatch):
    monkeypatch.setattr(command, "BATCHES_PER_WINDOW", 2)  # 6 lines with batches of 3


@pytest.fixture
def make(checkpoint, tmp_path):
    """Return a function that makes the configuration of a large translation."""
    source = tmp_path / "big.de"
    source.write_text("".join(f"{line}\n" for line in LINES))

    def config(**changes):
        changes = {"output": str(tmp_path / "big.en"), "resume": True} | changes
        if changes.get("output_format") is OutputFormat.text:
            del changes["output_format"]  # the default; others ask for several translations
        return make_translate_config(checkpoint, **{"input": str(source)} | changes)

    return config


@pytest.fixture
def stop_after(monkeypatch):
    """Return a function that makes the process end when a number of lines is written."""
    write = command.write

    def stop(num_lines):
        left = num_lines

        def write_some(output, content):
            nonlocal left
            if left == 0:
                output.flush()  # more may be on disk than was saved
                raise Killed
            left -= 1
            return write(output, content)

        monkeypatch.setattr(command, "write", write_some)

    return stop


def run_to_the_end(monkeypatch, config):
    monkeypatch.undo()
    monkeypatch.setattr(command, "BATCHES_PER_WINDOW", 2)
    translate(config)


@pytest.mark.parametrize("num_lines", [0, 5, 6, 23])
@pytest.mark.parametrize("output_format", [OutputFormat.text, OutputFormat.nbest])
def test_continued_output_equals_an_undisturbed_one(
    make, stop_after, tmp_path, monkeypatch, num_lines, output_format
):
    undisturbed, output = tmp_path / "whole.en", tmp_path / "big.en"
    translate(make(output=str(undisturbed), resume=False, output_format=output_format))
    config = make(output_format=output_format)

    stop_after(num_lines)
    with pytest.raises(Killed):
        translate(config)
    assert not output.exists()
    run_to_the_end(monkeypatch, config)

    assert output.read_bytes() == undisturbed.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.de", "big.en", "whole.en"]


def test_finished_windows_are_not_translated_again(make, stop_after, monkeypatch, caplog):
    caplog.set_level("INFO")
    stop_after(13)
    with pytest.raises(Killed):
        translate(make())
    searched = []
    monkeypatch.undo()
    monkeypatch.setattr(command, "BATCHES_PER_WINDOW", 2)
    monkeypatch.setattr(
        command.TranslationProgress, "advance", lambda self, found: searched.append(found.source)
    )

    translate(make())

    assert sorted(searched) == sorted(LINES[12:])
    assert "big.en.partial has 12 lines already" in caplog.text


def test_packed_output_equals_an_undisturbed_one(make, stop_after, tmp_path, monkeypatch):
    undisturbed, output = tmp_path / "whole.en.gz", tmp_path / "big.en.gz"
    translate(make(output=str(undisturbed), resume=False))
    stop_after(8)
    with pytest.raises(Killed):
        translate(make(output=str(output)))

    run_to_the_end(monkeypatch, make(output=str(output)))

    assert output.read_bytes() == undisturbed.read_bytes()


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("decoding.beam_size", {"output_format": OutputFormat.text}),
        ("batch_size", {"batch_size": 2}),
        ("shard", {"shard": "1/2"}),
        ("input", {}),
    ],
)
def test_another_command_does_not_continue(make, stop_after, tmp_path, monkeypatch, key, changes):
    stop_after(8)
    with pytest.raises(Killed):
        translate(make())
    before = (tmp_path / "big.en.partial" / "text").read_bytes()
    if key == "input":
        (tmp_path / "big.de").write_text("".join(f"{line}\n" for line in LINES[::-1]))
    if key == "decoding.beam_size":
        changes["decoding"] = make().decoding.as_greedy()

    with pytest.raises(ValueError, match=rf"begun with another {key.split('.')[0]}.*begin anew"):
        run_to_the_end(monkeypatch, make(**changes))

    assert (tmp_path / "big.en.partial" / "text").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content"), [("state.json", b"{}"), ("state.json", b"\xff"), ("text", b"")]
)
def test_damaged_files_are_named(make, stop_after, tmp_path, monkeypatch, name, content):
    stop_after(8)
    with pytest.raises(Killed):
        translate(make())
    (tmp_path / "big.en.partial" / name).write_bytes(content)

    with pytest.raises(ValueError, match=rf"partial/{name} is damaged; delete"):
        run_to_the_end(monkeypatch, make())


def test_an_output_that_cannot_be_written_is_refused_first(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*none; make it"):
        translate(make(output=str(tmp_path / "none" / "a.en")))
    with pytest.raises(ValueError, match="/dev/null is not a file"):
        translate(make(output="/dev/null"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.de"]


@pytest.mark.parametrize("name", ["", "/notes", "/text", "/folder/notes"])
def test_what_another_program_has_left_is_refused_and_kept(make, tmp_path, name):
    other = tmp_path / f"big.en.partial{name}"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("kept")
    config = make()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ValueError, match=r"big\.en\.partial was not written by this .* move it"):
        translate(config)

    assert sorted(tmp_path.rglob("*")) == before
    assert other.read_text() == "kept"


def test_files_that_were_added_to_the_finished_windows_are_kept(
    make, stop_after, tmp_path, monkeypatch
):
    stop_after(8)
    with pytest.raises(Killed):
        translate(make())
    (tmp_path / "big.en.partial" / "notes").write_text("kept")

    run_to_the_end(monkeypatch, make())

    left = [path.name for path in (tmp_path / "big.en.partial").iterdir()]
    assert left == ["notes"]


def test_a_process_killed_as_it_deletes_the_windows_can_be_repeated(
    make, stop_after, tmp_path, monkeypatch
):
    stop_after(8)
    with pytest.raises(Killed):
        translate(make())
    (tmp_path / "big.en.partial" / "text").unlink()

    run_to_the_end(monkeypatch, make())

    assert (tmp_path / "big.en").read_bytes().count(b"\n") > 0
    assert not (tmp_path / "big.en.partial").exists()


@pytest.mark.parametrize("key", ["input", "dictionary"])
def test_a_pipe_is_refused(checkpoint, tmp_path, key):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # A reader and a writer at once, so that neither waits for the other.
    end = os.open(pipe, os.O_RDWR)
    os.write(end, b"ein\teins\n")
    (tmp_path / "a.de").write_text("ein\n")
    files = {"input": str(tmp_path / "a.de"), key: str(pipe)}
    config = make_translate_config(
        checkpoint,
        **files,
        unknown_words=UnknownTokens.copy,
        output=str(tmp_path / "a.en"),
        resume=True,
    )

    with pytest.raises(ValueError, match=f"{key}=.*pipe is read twice with resume=true"):
        translate(config)
    os.close(end)


def test_a_changed_plugin_does_not_continue(make, stop_after, tmp_path, monkeypatch):
    plugin = tmp_path / "search.py"
    plugin.write_text("a = 1")
    stop_after(8)
    with pytest.raises(Killed):
        translate(make(plugins=[str(plugin)]))
    plugin.write_text("a = 2")

    with pytest.raises(ValueError, match="begun with another plugins"):
        run_to_the_end(monkeypatch, make(plugins=[str(plugin)]))


def test_two_processes_do_not_write_one_output(make, tmp_path):
    lock = DirectoryLock(tmp_path / "big.en.partial", advice="wait")
    with lock, pytest.raises(DirectoryInUseError, match=r"is in use by process .*; wait for it"):
        translate(make())


@pytest.mark.slow
def test_several_processes_write_the_output_of_one_and_continue_it(
    make, stop_after, tmp_path, monkeypatch
):
    whole = tmp_path / "whole.en"
    changes = {"output_format": OutputFormat.json, "shard": "2/2"}
    translate(make(output=str(whole), resume=False, **changes))
    stop_after(6)
    with pytest.raises(Killed):
        translate(make(**changes))

    run_to_the_end(monkeypatch, make(processes=2, **changes))

    assert (tmp_path / "big.en").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("number", [1, 5, 30])
def test_joined_shards_equal_the_whole(make, tmp_path, number):
    whole = tmp_path / "whole.en"
    translate(make(output=str(whole), resume=False))
    parts = [tmp_path / f"{part}.en" for part in range(1, number + 1)]

    for part, path in enumerate(parts, start=1):
        translate(make(output=str(path), shard=f"{part}/{number}", resume=False))

    contents = [path.read_bytes() for path in parts]
    assert b"".join(contents) == whole.read_bytes()
    sizes = {content.count(b"\n") for content in contents}
    assert max(sizes) - min(sizes) <= 1


def test_a_shard_without_lines_is_no_empty_input(make, tmp_path, caplog):
    translate(make(shard="1/100"))

    assert (tmp_path / "big.en").read_bytes() == b""
    assert "has no lines" not in caplog.text


def test_counting_lines_does_not_hold_a_long_one(make, tmp_path):
    size = 50_000_000
    (tmp_path / "big.de.gz").write_bytes(gzip.compress(bytes(size), 1))
    tracemalloc.start()

    with pytest.raises(ValueError, match=r"big\.de\.gz:1: the line has more than 1,048,576 bytes"):
        translate(make(input=str(tmp_path / "big.de.gz"), shard="2/2"))

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 2


def test_nbest_lists_of_a_shard_are_numbered_as_in_the_whole(make, tmp_path):
    output = tmp_path / "big.en"

    translate(make(shard="2/4", output_format=OutputFormat.nbest))

    numbers = [line.split(" ||| ")[0] for line in output.read_text().splitlines()]
    assert sorted({*map(int, numbers)}) == [6, 7, 8, 9, 10, 11]


def test_a_shard_takes_its_own_prefixes(checkpoint, tmp_path):
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"ein\nzwei\nja\n"))
    (tmp_path / "a.prefix").write_text("a\nb\n" + "abc" * 200 + "\n")
    config = make_translate_config(
        checkpoint,
        input=str(tmp_path / "a.de.gz"),
        prefixes=str(tmp_path / "a.prefix"),
        output=str(tmp_path / "a.en"),
        shard="2/2",
    )

    with pytest.raises(ValueError, match=r"a\.prefix:3 "):
        translate(config)


def test_state_names_what_produced_the_text(make, stop_after, tmp_path):
    stop_after(8)
    with pytest.raises(Killed):
        translate(make())

    state = json.loads((tmp_path / "big.en.partial" / "state.json").read_bytes())

    assert state["lines"] == 6
    assert state["produced_by"]["decoding.beam_size"] == "3"
    assert len(state["produced_by"]["checkpoint"]) == 64
