"""Any line gives one output line through each kind of search and output.

FAULTS_LINES is the number of lines that each of them gets.
"""

import itertools
import os
import random
from pathlib import Path

import pytest
from tiny_data import list_corpus, unigram_config
from tiny_translator import make_translate_config, write_checkpoint

from seq2seq.cli.translate import translate
from seq2seq.cli.translate_config import OutputFormat
from seq2seq.data.tokenizers.ruled import train_tokenizers
from seq2seq.search.config import BeamConfig, GreedyConfig
from seq2seq.text.sentences import Split

NUM_LINES = int(os.environ.get("FAULTS_LINES", "500"))
SHORT = {"max_length_ratio": 0.0, "max_length_offset": 3}
"""So short that a million lines take minutes."""
WHOLE = {"decoding": GreedyConfig(**SHORT)}
TWO_BEST = {"decoding": BeamConfig(beam_size=2, n_best=2, **SHORT)}
WAYS = {
    "greedy": {"decoding": GreedyConfig(**SHORT)},
    "beam": {"decoding": BeamConfig(beam_size=2, **SHORT)},
    "split": {"decoding": GreedyConfig(**SHORT), "split": Split.always},
    "n-best": {**TWO_BEST, "output_format": OutputFormat.nbest},
    "alignments": {**WHOLE, "alignments": "links"},
    "reference": {"reference": "in"},
}
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
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tiny model that reads and writes subwords."""
    tokenizers = train_tokenizers(unigram_config(), CORPUS)
    return write_checkpoint(tmp_path_factory.mktemp("fuzz") / "run", tokenizers=tokenizers)


def hostile_lines(number: int) -> list[bytes]:
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


@pytest.mark.parametrize("way", WAYS)
def test_as_many_lines_come_out_as_went_in(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = hostile_lines(NUM_LINES)
    if way == "reference":  # the time grows with the product of both lengths
        given = [line for line in given if line not in LONG]
    Path("in").write_bytes(b"".join(line + b"\n" for line in given))
    files = {"input": "in", "output": "out"}

    translate(make_translate_config(checkpoint, **files, batch_size=64, **WAYS[way]))

    assert "bytes that are not UTF-8 were replaced" in caplog.text
    *lines, rest = Path("out").read_bytes().decode("utf-8").split("\n")
    assert rest == ""
    if way == "n-best":
        numbers = list(dict.fromkeys(int(line.split(" ||| ")[0]) for line in lines))
        assert numbers == list(range(len(given)))
    else:
        assert len(lines) == len(given)
    if way == "alignments":
        assert Path("links").read_bytes().count(b"\n") == len(given)
