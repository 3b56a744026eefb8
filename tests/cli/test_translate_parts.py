import gzip
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from tiny_training import ROOT
from tiny_translator import SENTENCES, make_translate_config

from seq2seq.cli import translate as command
from seq2seq.cli.translate import translate
from seq2seq.cli.translate_config import OutputFormat, UnknownTokens
from seq2seq.cli.translate_lines import LineTranslator
from seq2seq.files.lock import DirectoryInUseError, DirectoryLock
from seq2seq.search.config import GreedyConfig, convert_search

LINES = SENTENCES * 3  # 24 lines in 4 parts of 6


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(command, "BATCHES_PER_WINDOW", 2)  # of 3 lines


@pytest.fixture
def make(checkpoint, tmp_path):
    """Return a function that makes the configuration of a large translation."""
    source = tmp_path / "big.de"
    source.write_text("".join(f"{line}\n" for line in LINES))

    def config(**changes):
        changes = {"output": str(tmp_path / "big.en"), "resume": True} | changes
        return make_translate_config(checkpoint, **{"input": str(source)} | changes)

    return config


@pytest.fixture
def kill_after(monkeypatch):
    """Return a function that translates and is killed when a number of lines is translated."""

    def kill(num_lines, config):
        original, left = LineTranslator.translate, num_lines

        def translate_some(self, window):
            nonlocal left
            for each in original(self, window):
                if left == 0:
                    raise Killed
                left -= 1
                yield each

        with monkeypatch.context() as context, pytest.raises(Killed):
            context.setattr(LineTranslator, "translate", translate_some)
            translate(config)

    return kill


@pytest.mark.parametrize("num_lines", [0, 6, 23])
def test_continued_outputs_equal_undisturbed_ones(make, kill_after, tmp_path, caplog, num_lines):
    names = {"output": "en.gz", "alignments": "links"}
    whole, continued = (
        {key: str(tmp_path / f"{which}.{name}") for key, name in names.items()}
        for which in ("whole", "big")
    )
    (tmp_path / "big.de").write_text("".join(f"{line} \u03be\n" for line in LINES))
    translate(make(**whole, resume=False, output_format=OutputFormat.nbest))
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert any("unknown to the model" in each for each in warnings)
    caplog.clear()
    config = make(**continued, output_format=OutputFormat.nbest)

    kill_after(num_lines, config)
    assert not (tmp_path / "big.en.gz").exists()
    translate(config)

    for key in names:
        assert Path(continued[key]).read_bytes() == Path(whole[key]).read_bytes()
    assert warnings == [e.getMessage() for e in caplog.records if e.levelname == "WARNING"]
    assert not list(tmp_path.glob("*.partial"))


def test_finished_parts_are_not_translated_again(make, kill_after, monkeypatch, caplog):
    caplog.set_level("INFO")
    kill_after(13, make())
    firsts, original = [], LineTranslator.translate
    monkeypatch.setattr(
        LineTranslator,
        "translate",
        lambda self, window: (firsts.append(window.number), original(self, window))[1],
    )

    translate(make())

    assert firsts == [12, 18]
    assert "big.en.partial already has 2 parts" in caplog.text


@pytest.mark.parametrize("key", ["decoding", "batch_size", "shard", "input", "plugins"])
def test_another_command_does_not_continue(make, kill_after, tmp_path, key):
    plugin = tmp_path / "search.py"
    plugin.write_text("a = 1")
    kill_after(8, make(plugins=[str(plugin)]))
    state = json.loads((tmp_path / "big.en.partial" / "state.json").read_bytes())
    assert ("beam_size=3" in state["decoding"], len(state["checkpoint"])) == (True, 64)
    changes = {"batch_size": {"batch_size": 2}, "shard": {"shard": "1/2"}}.get(key, {})
    if key == "input":
        (tmp_path / "big.de").write_text("".join(f"{line}\n" for line in LINES[::-1]))
    elif key == "plugins":
        plugin.write_text("a = 2")
    elif key == "decoding":
        changes["decoding"] = convert_search(make().decoding, GreedyConfig)

    with pytest.raises(ValueError, match=rf"begun with another {key}; .*start again"):
        translate(make(plugins=[str(plugin)], **changes))

    assert len(list((tmp_path / "big.en.partial").glob("part-*.output"))) == 1


@pytest.mark.parametrize("content", [b"1", b"\xff"])
def test_a_damaged_state_is_named(make, kill_after, tmp_path, content):
    kill_after(8, make())
    (tmp_path / "big.en.partial" / "state.json").write_bytes(content)

    with pytest.raises(ValueError, match=r"partial/state\.json is damaged; delete"):
        translate(make())


def test_an_output_that_cannot_be_written_is_refused_first(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*none; make it"):
        translate(make(output=str(tmp_path / "none" / "a.en")))
    with pytest.raises(ValueError, match="/dev/null is not a file"):
        translate(make(output="/dev/null"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.de"]


@pytest.mark.parametrize("name", ["/notes", "/part-0", "/folder/notes"])
def test_what_another_program_has_left_is_refused_and_kept(make, tmp_path, name):
    other = tmp_path / f"big.en.partial{name}"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("kept")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ValueError, match=r"big\.en\.partial was not written by this .* move it"):
        translate(make())

    assert sorted(tmp_path.rglob("*")) == before
    assert other.read_text() == "kept"


def test_a_process_killed_as_it_deletes_the_parts_can_be_repeated(make, kill_after, tmp_path):
    partial = tmp_path / "big.en.partial"
    kill_after(8, make())
    (partial / "part-000000000000.output").unlink()
    (partial / "notes").write_text("of someone else")

    translate(make())

    assert (tmp_path / "big.en").read_bytes().count(b"\n") == len(LINES)
    assert [path.name for path in partial.iterdir()] == ["notes"]


def test_a_damaged_part_is_translated_again(make, kill_after, tmp_path):
    kill_after(8, make())
    [part] = (tmp_path / "big.en.partial").glob("part-*.output")
    part.write_bytes(part.read_bytes()[:-3])

    translate(make())

    assert (tmp_path / "big.en").read_bytes().count(b"\n") == len(LINES)


@pytest.mark.parametrize("key", ["input", "dictionary"])
def test_a_pipe_is_refused(make, tmp_path, key):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    config = make(**{key: str(pipe)}, unknown_words=UnknownTokens.copy)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, b"ein\teins\n")
        with pytest.raises(ValueError, match=f"{key}=.*pipe must be read twice with resume=true"):
            translate(config)


def test_two_commands_do_not_write_one_output(make, tmp_path):
    lock = DirectoryLock(tmp_path / "big.en.partial", advice="wait")
    with lock, pytest.raises(DirectoryInUseError, match=r"is in use by process .*; wait for it"):
        translate(make())


@pytest.mark.parametrize("number", [1, 5, 30])
def test_joined_shards_equal_the_whole(make, tmp_path, number, caplog):
    def rows(**keys):
        """Return the number and the text of each translation; batches change scores a little."""
        path = tmp_path / "rows"
        translate(make(output=str(path), resume=False, output_format=OutputFormat.nbest, **keys))
        return [tuple(row.split(" ||| ")[:2]) for row in path.read_text().splitlines()]

    shards = [rows(shard=f"{part}/{number}") for part in range(1, number + 1)]

    assert [*chain.from_iterable(shards)] == rows()
    sizes = [len({line for line, _ in each}) for each in shards]
    assert max(sizes) - min(sizes) <= 1
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


def test_a_shard_takes_its_own_prefixes(make, tmp_path):
    (tmp_path / "prefixes").write_text("a\n" * 23 + "abc" * 200 + "\n")

    with pytest.raises(ValueError, match=r"prefixes:24 has 600 tokens"):
        translate(make(prefixes=str(tmp_path / "prefixes"), shard="2/2"))


@pytest.mark.slow
def test_several_processes_write_and_warn_as_one(make, tmp_path, caplog):
    text = [*LINES, "\u65e5", "ja " * 400]
    (tmp_path / "big.de").write_text("".join(f"{line}\n" for line in text))
    words = tmp_path / "words"
    words.write_text("xyz\n")

    def run(number):
        caplog.clear()
        output = tmp_path / f"{number}.en"
        keys = {"banned_phrases": str(words), "unknown_words": UnknownTokens.copy}
        translate(make(output=str(output), resume=False, processes=number, **keys))
        return output.read_bytes(), caplog.messages

    assert run(2) == run(1)
    assert len(caplog.messages) == 3


@pytest.mark.slow
@pytest.mark.parametrize("scored", [False, True])
def test_several_processes_continue_what_one_has_begun(make, kill_after, tmp_path, scored):
    (tmp_path / "reference").write_text("a b\n" * len(LINES))
    keys = {"reference": str(tmp_path / "reference")} if scored else {"shard": "2/2"}
    whole, links, plots = (str(tmp_path / name) for name in ("whole.en", "links", "plots"))
    keys |= {"output_format": OutputFormat.json}
    translate(make(output=whole, alignments=f"{links}.1", resume=False, **keys))
    keys |= {"alignments": links, "attention_plot": plots}
    kill_after(6, make(**keys))

    translate(make(processes=2, **keys))

    assert (tmp_path / "big.en").read_bytes() == Path(whole).read_bytes()
    assert Path(links).read_bytes() == Path(f"{links}.1").read_bytes()
    best = [path for path in Path(plots).iterdir() if "-" not in path.stem]
    assert len(best) == 18 if scored else 9


@pytest.mark.slow
def test_an_error_in_a_process_names_the_line(make, tmp_path):
    (tmp_path / "prefixes").write_text("\n" * 19 + "a" * 99 + "\n" * 5)

    with pytest.raises(ValueError, match=r"^prefixes=\S+prefixes:20 has 99 tokens, but the"):
        translate(make(prefixes=str(tmp_path / "prefixes"), processes=2))


PATIENCE = 60
"""Seconds."""


@pytest.fixture
def started(checkpoint, tmp_path):
    """Start a translation in two processes; yield it, and those, after its first part."""
    (tmp_path / "a.de").write_text("".join(f"{line}\n" for line in SENTENCES * 5_000))
    keys = {"checkpoint": checkpoint, "input": "a.de", "output": "a.en", "batch_size": 1}
    given = [f"{key}={value}" for key, value in keys.items()]
    with subprocess.Popen(
        [sys.executable, ROOT / "translate.py", *given, "processes=2", "resume=true"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: list(tmp_path.glob("a.en.partial/part-*")))
            yield process, workers(process.pid)
        finally:
            process.kill()


def workers(pid):
    """Return the processes that translate; another child looks after their memory."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(each)
        for each in children
        if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def wait_until(happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_command(started, number):
    process, others = started
    assert len(others) == 2
    if number == signal.SIGINT:  # a terminal sends it to all
        for each in others:
            os.kill(each, number)

    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)

    wait_until(lambda: not any(map(is_running, others)))
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}.get(number)
    if name:  # else the process that looks after the memory may say what it cleaned up
        assert errors == f"stopped by {name}\n"
    assert process.returncode == (128 + number if name else -number)


@linux
@pytest.mark.slow
def test_a_process_that_dies_ends_the_command_in_one_line(started):
    process, (first, second) = started

    os.kill(second, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert errors == (
        "error: one of the processes=2 has died, perhaps because memory ran out; use fewer "
        "processes or a smaller batch_size\n"
    )
    wait_until(lambda: not is_running(first))
