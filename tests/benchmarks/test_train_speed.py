"""The training benchmark prints its tables, with small models and a made-up peer."""

import re
import sys

import pytest

from benchmarks import train_speed
from seq2seq.attention.base import attention_config_types

PEER = "echo 'peer train: 50 target tokens/s (median of 2 intervals)'"
FORMS = ["luong", "luong, no input feeding", "bahdanau", "conditional"]
TYPES = [name for name in attention_config_types() if name != "additive"]
PLAIN = ["luong, plain kernels", "plain step loop"]


@pytest.fixture
def overrides(tmp_path):
    lines = [f"{'a b c d'[: 1 + 2 * (i % 4)]}\n" for i in range(40)]
    for name in ("x.de", "x.en"):
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    files = f"[{tmp_path}/x.de,{tmp_path}/x.en]"
    return [
        "data=files",
        "tokenizer=characters",
        *(f"data.{split}={files}" for split in ("train", "valid", "test")),
        f"data.cache_dir={tmp_path}/cache",
        "model.encoder.hidden_size=8",
        "model.decoder.hidden_size=16",
        "training.batching.size=4",
        "training.threads=1",
    ]


@pytest.mark.parametrize(
    ("options", "expected"), [([], [*FORMS, *TYPES, *PLAIN]), (["--forms-only"], [*FORMS, *PLAIN])]
)
def test_tables_compare_forms_types_kernels_and_the_peer(
    overrides, monkeypatch, capsys, options, expected
):
    arguments = ["--intervals", "1", "--peer-command", PEER, *options, *overrides]
    monkeypatch.setattr(sys, "argv", ["train_speed.py", *arguments])

    train_speed.main()

    printed = capsys.readouterr().out
    rows = re.findall(r"^\| ([a-z, ]+) \| (\d+) \|", printed, re.MULTILINE)
    assert [name for name, _ in rows] == expected
    speed = int(dict(rows)["luong"])
    ratios = re.findall(r"^([\d.]+) times the peer's 50 target tokens/s$", printed, re.MULTILINE)
    assert [float(ratio) for ratio in ratios] == pytest.approx([speed / 50] * 2, abs=0.02)
