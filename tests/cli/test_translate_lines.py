import logging
import pickle

from tiny_translator import SENTENCES, make_translate_config, make_translator

from seq2seq.cli.translate_config import LongLines, UnknownTokens
from seq2seq.cli.translate_lines import LineTranslator
from seq2seq.cli.translate_streams import Window

LINES = [*SENTENCES, "\u65e5", "ja. Nein. " * 200]
KEYS = {"long_lines": LongLines.split, "unknown_words": UnknownTokens.copy}


def window(lines, first):
    return Window([(line, "") for line in lines], 0, first, first, ("input=a.de", ""))


def run(lines, *windows):
    return [contents["output"] for each in windows for *_, contents in lines.translate(each)]


def test_copies_translate_as_one_and_their_counts_add_up(caplog):
    lines = LineTranslator(make_translate_config("run", **KEYS), make_translator())
    copies = [pickle.loads(pickle.dumps(lines)) for _ in range(2)]
    parts = [window(LINES[:4], 0), window(LINES[4:], 4)]
    whole = run(lines, *parts)
    with caplog.at_level(logging.INFO):
        lines.counts.report()
    expected = caplog.messages[:]
    caplog.clear()
    lines.counts.numbers.clear()

    found = [text for each, part in zip(copies, parts, strict=True) for text in run(each, part)]
    for each in copies:
        lines.counts.numbers.update(each.counts.numbers)
    with caplog.at_level(logging.INFO):
        lines.counts.report()

    assert found == whole
    assert caplog.messages == expected
    assert len(expected) > 1
