import gzip
import io
import logging
import sys

import pytest
from tiny_translator import make_translate_config

from seq2seq.cli.translation.progress import MANY, open_progress
from seq2seq.inference.translation import Translation


class Terminal(io.StringIO):
    def isatty(self):
        return True


def use_terminal(monkeypatch):
    """Make standard error a terminal and return it; standard input is none."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return terminal


def run(config, sentences):
    with open_progress(config) as progress:
        for sentence in sentences:
            progress.advance(Translation(sentence, [], [], []))
        progress.log_speed()


def test_there_is_no_bar_if_standard_error_is_closed(file, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)

    run(make_translate_config("run", input=file), ["ein B\xe4r", "ja"])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.de"
    path.write_bytes("ein B\xe4r\nja\n".encode())
    return str(path)


def test_the_bar_of_a_plain_file_reaches_100_percent(file, monkeypatch):
    terminal = use_terminal(monkeypatch)
    run(make_translate_config("run", input=file), ["ein B\xe4r", "ja"])

    shown = terminal.getvalue()
    assert "100%|" in shown
    assert "2 sentences, " in shown
    assert " sentences/s [" in shown


def test_without_a_known_size_only_sentences_are_counted(tmp_path, file, monkeypatch):
    terminal = use_terminal(monkeypatch)
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(b"ja\n"))

    for given in (None, [file, str(packed)]):
        terminal.truncate(0)
        run(make_translate_config("run", input=given), ["ja"] * 3)

        assert "3 sentences, " in terminal.getvalue()
        assert "%" not in terminal.getvalue()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"text": "ja"}, id="text"),
        pytest.param({"progress": False}, id="not wanted"),
    ],
)
def test_there_is_no_bar_for(changes, monkeypatch):
    terminal = use_terminal(monkeypatch)
    run(make_translate_config("run", **changes), ["ja"])

    assert terminal.getvalue() == ""


def test_there_is_no_bar_at_a_prompt(monkeypatch):
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdin", Terminal())

    run(make_translate_config("run", progress=True), ["ja"])

    assert terminal.getvalue() == ""


def test_a_bar_on_the_terminal_of_the_translations_must_be_asked_for(monkeypatch):
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", Terminal())

    run(make_translate_config("run"), ["ja"])
    by_itself = terminal.getvalue()
    run(make_translate_config("run", output="out.txt"), ["ja"])
    run(make_translate_config("run", progress=True), ["ja"])

    assert by_itself == ""
    assert terminal.getvalue().count("1 sentences, ") == 2


def test_a_bar_in_a_file_must_be_asked_for(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    run(make_translate_config("run"), ["ja"])
    by_itself = log.getvalue()
    run(make_translate_config("run", progress=True), ["ja"])

    assert by_itself == ""
    assert "1 sentences" in log.getvalue()


@pytest.mark.parametrize(("num_sentences", "num_lines"), [(MANY - 1, 0), (MANY, 1)])
def test_the_speed_of_many_sentences_is_logged_at_the_end(
    caplog, num_sentences, num_lines, monkeypatch
):
    use_terminal(monkeypatch)
    with caplog.at_level(logging.INFO):
        run(make_translate_config("run", progress=False), ["ja"] * num_sentences)

    assert len(caplog.messages) == num_lines
    for message in caplog.messages:
        count, _, rest = message.partition(" in ")
        seconds, _, rate = rest.partition(" s (")
        assert count == f"{num_sentences:,} sentences"
        assert float(seconds) >= 0
        assert rate.endswith(" sentences/s)")


def test_no_speed_is_logged_after_an_interruption(caplog, monkeypatch):
    use_terminal(monkeypatch)
    with caplog.at_level(logging.INFO), open_progress(make_translate_config("run")) as progress:
        for _ in range(MANY):
            progress.advance(Translation("ja", [], [], []))

    assert caplog.messages == []


def test_a_warning_does_not_mix_with_the_bar(monkeypatch):
    terminal = use_terminal(monkeypatch)
    handler = logging.StreamHandler(terminal)
    logging.getLogger().addHandler(handler)
    try:
        with open_progress(make_translate_config("run", progress=True)) as progress:
            progress.advance(Translation("ja", [], [], []))
            logging.getLogger().warning("beware")
    finally:
        logging.getLogger().removeHandler(handler)

    [line] = [line for line in terminal.getvalue().split("\n") if "beware" in line]
    assert line.rpartition("\r")[2] == "beware"
