"""Any bytes give one output line for each line feed, and no exception."""

import io
import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import list_corpus, unigram_config
from tiny_translator import GREEDY, make_translate_config, write_checkpoint

from seq2seq.cli.translate import translate
from seq2seq.data.tokenizers.interface import train_tokenizers
from seq2seq.files.text import UTF16_MARKS, LineReader
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device

# So short that thousands of lines take seconds.
DECODING = replace(GREEDY, max_length_ratio=0.0, max_length_offset=4)
ATOMS = [
    *(b"ein hund", b"Zwei Katzen.", b"a", "B\xe4r".encode(), b" ", b"   ", b"\t", b"\t \t"),
    *(b"<s>", b"</s>", b"<unk>", b"<pad>", b"<0x0A>", b" ||| ", b"0-0", "\u2581".encode()),
    *(char.encode() for char in "\u2047\u2585\u2028\u2029\x85\xa0\u3000\u200b\ufeff\ufffd\uffff"),
    *(b"\r", b"\r\r", b"\x0c", b"\x0b", b"\x00", b"\x1b[31m", b"\x7f", b"\x08", b"\x1c\x1d\x1e"),
    *(b"\xff", b"\xfe\xff", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xf8\x88\x80\x80\x80"),
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf4\x90\x80\x80"),
    *("e" + "\u0301" * 30, "\u05e9\u05dc\u05d5\u05dd", "\u202eabc\u202c", "\u0645\u0631\u062d"),
    *("\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea", "\u4f60\u597d\u3002", "\U0010ffff"),
    *("\xdf\ufb01\u0130\u0131", "\ud55c\uae00", "\u1100\u1161\u11a8", "'\"\\${x}%s{}", "."),
]
ATOMS = [atom.encode() if isinstance(atom, str) else atom for atom in ATOMS]
LONG = [b"x" * 5000, "\u65e5".encode() * 5000, b"\xff" * 5000, b"<s>" * 1500, b". " * 2000]


WORDS = ("hund", "Katze", "schnee", "ein", "zwei", "B\xe4r")
CORPUS = list_corpus(
    (f"{left} {right}.", f"{right.upper()} {left}")
    for left, right in itertools.product(WORDS, WORDS)
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a tiny model that reads and writes sub-words, and return its path."""
    tokenizers = train_tokenizers(unigram_config(), CORPUS)
    return write_checkpoint(tmp_path_factory.mktemp("fuzz") / "run", tokenizers=tokenizers)


@pytest.fixture(scope="module")
def translator(checkpoint):
    return Translator.load(checkpoint, device=Device.cpu)


def adversarial_lines(number):
    """Return so many lines, always the same: single atoms, mixtures, random bytes, long ones."""
    generator = random.Random(5)
    lines = [*ATOMS, *LONG, b""]
    while len(lines) < number:
        size = generator.randint(0, 8)
        if generator.random() < 0.3:
            line = generator.randbytes(3 * size).replace(b"\n", b"")
        else:
            line = b"".join(generator.choices(ATOMS, k=size))
        lines.append(line)
    generator.shuffle(lines)
    return lines[:number]


def run(checkpoint, lines, tmp_path, **changes):
    """Translate lines from file to file; return what was written, cut at its line feeds."""
    (tmp_path / "in").write_bytes(b"\n".join(lines) + b"\n")
    translate(
        make_translate_config(
            checkpoint,
            **{"input": str(tmp_path / "in"), "batch_size": 64, "decoding": DECODING, **changes},
            output=str(tmp_path / "out"),
        )
    )
    *written, rest = (tmp_path / "out").read_bytes().split(b"\n")
    assert rest == b""
    return [line.decode("utf-8") for line in written]


def test_each_adversarial_line_becomes_one_line(checkpoint, tmp_path):
    lines = adversarial_lines(2_000)

    changes = {"alignments": str(tmp_path / "links"), "split_length": 10_000}
    written = run(checkpoint, lines, tmp_path, **changes)

    assert len(written) == len(lines)
    assert all(
        text == ""
        for line, text in zip(lines, written, strict=True)
        if not line.decode(errors="replace").strip()
    )
    assert (tmp_path / "links").read_bytes().count(b"\n") == len(lines)


def test_adversarial_lines_are_scored_as_their_own_references(checkpoint, tmp_path):
    lines = [line for line in adversarial_lines(300) if line not in LONG]

    written = run(checkpoint, lines, tmp_path, reference=str(tmp_path / "in"))

    assert len(written) == len(lines)
    assert all(float(score) <= 0 for score in written)


@settings(max_examples=60, database=None)
@given(
    content=(
        st.binary(max_size=60)
        | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
        | st.lists(st.sampled_from([*ATOMS, b"\n", b"\n", b"\r\n"]), max_size=30).map(b"".join)
    ).filter(lambda content: not content.startswith(UTF16_MARKS))
)
def test_any_bytes_become_a_line_for_each_line_feed(translator, content):
    reader = LineReader(io.BytesIO(content), name="any")

    texts = [each.hypotheses[0].text for each in translator.translate(reader, DECODING)]

    is_unended = bool(content) and not content.endswith(b"\n")
    assert len(texts) == content.count(b"\n") + is_unended
    assert not any("\n" in text for text in texts)
