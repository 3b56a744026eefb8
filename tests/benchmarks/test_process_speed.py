"""The benchmark of processes prints its table and shares, with a small model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_training import corpus_overrides, write_corpus

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_table_compares_one_process_and_several(tmp_path):
    write_corpus(tmp_path)
    sizes = ("encoder.hidden_size=8", "decoder.hidden_size=16", "decoder.embedding_size=8")
    small = ["tokenizer=characters", "training.batching.size=4", "training.device=cpu"]
    command = [sys.executable, str(ROOT / "benchmarks" / "process_speed.py")]
    options = ["--intervals", "1", "--updates", "2"]

    done = subprocess.run(
        [*command, *options, *corpus_overrides(tmp_path), *small, *(f"model.{s}" for s in sizes)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\| (\d [^|]+) \| (\d+) \| ([\d.]+) \|$", done.stdout, re.MULTILINE)
    assert [name for name, _, _ in rows] == [
        "1 process, 1 thread",
        "1 process, 2 threads",
        "2 processes, 1 thread each",
    ]
    alone = int(rows[0][1])
    for _, speed, ratio in rows:
        assert float(ratio) == pytest.approx(int(speed) / alone, abs=0.02)
    shares = re.findall(r"^(adding up|waiting and adding up).*: ([\d.]+)% of", done.stdout, re.M)
    assert len(shares) == 2
    assert all(0 < float(share) < 100 for _, share in shares)
