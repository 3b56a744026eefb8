"""Any line gives one output line through greedy search, beam search, n-best lists and splitting.

FAULTS_LINES is the number of lines that each of them gets.
"""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_translator import make_translate_config, write_checkpoint

from seq2seq.cli.translate import translate
from seq2seq.cli.translate_config import LongLines, OutputFormat
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.search.config import BeamConfig, GreedyConfig

NUM_LINES = int(os.environ.get("FAULTS_LINES", "2000"))
SHORT = {"max_length_ratio": 0.0, "max_length_offset": 3}
"""So short that a million lines take minutes."""
WAYS = {
    "greedy": {"decoding": GreedyConfig(**SHORT)},
    "beam": {"decoding": BeamConfig(beam_size=2, **SHORT)},
    "n-best": {
        "decoding": BeamConfig(beam_size=2, n_best=2, **SHORT),
        "output_format": OutputFormat.nbest,
    },
    "split": {"decoding": GreedyConfig(**SHORT), "long_lines": LongLines.split, "split_length": 3},
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tiny model of characters."""
    tokenizers = TokenizerPair(*[CharacterTokenizer("abc .")] * 2)
    return write_checkpoint(tmp_path_factory.mktemp("fuzz") / "run", tokenizers=tokenizers)


def write_fuzz(path: Path, num_lines: int) -> None:
    """Write lines of random bytes, of text with random bytes, and of white space."""
    draw = random.Random(11)
    with path.open("wb") as file:
        for _ in range(num_lines):
            kind = draw.random()
            if kind < 0.4:
                line = draw.randbytes(draw.randrange(12))
            elif kind < 0.9:
                line = bytes(draw.choices(b"abc .!?<>|\\\t\r\0\xff\xc3\xa4", k=draw.randrange(16)))
            else:
                line = bytes(draw.choices(b" \t\r\x0b\x0c\x1c\x85", k=draw.randrange(6)))
            file.write(line.replace(b"\n", b"") + b"\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_as_many_lines_come_out_as_went_in(
    checkpoint: Path, tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_fuzz(tmp_path / "in", NUM_LINES)
    config = make_translate_config(
        checkpoint, input=str(tmp_path / "in"), output=str(tmp_path / "out"), batch_size=512
    )

    translate(replace(config, **WAYS[way]))

    assert "bytes that are not UTF-8 were replaced" in caplog.text
    with (tmp_path / "out").open("rb") as file:
        lines = [line.removesuffix(b"\n").decode("utf-8") for line in file]
    if way == "n-best":
        numbers = list(dict.fromkeys(int(line.split(" ||| ")[0]) for line in lines))
        assert numbers == list(range(NUM_LINES))
    else:
        assert len(lines) == NUM_LINES
