"""The benchmark of processes prints its table and shares, with a small model."""

import re
import sys

import pytest
from tiny_training import corpus_overrides, write_corpus

from benchmarks import process_speed

SPEEDS = {(1, 1): 100.0, (1, 2): 150.0, (2, 1): 180.0}
"""By the numbers of processes and of threads."""


@pytest.mark.slow
def test_a_table_compares_one_process_and_several(tmp_path, monkeypatch, capsys):
    write_corpus(tmp_path)
    sizes = ("encoder.hidden_size=8", "decoder.hidden_size=16", "decoder.embedding_size=8")
    small = ["tokenizer=characters", "training.batching.size=4", "training.device=cpu"]
    small += [*corpus_overrides(tmp_path), *(f"model.{size}" for size in sizes)]
    measured = process_speed.start(2, 1, [*small, "--updates", "2"])

    def start(num_processes, num_threads, options):
        assert options == [*small, "--updates", "2"]
        return measured | {"tokens_per_second": SPEEDS[num_processes, num_threads]}

    monkeypatch.setattr(process_speed, "start", start)
    arguments = ["--intervals", "1", "--updates", "2", *small]
    monkeypatch.setattr(sys, "argv", ["process_speed.py", *arguments])

    process_speed.main()

    assert measured["tokens_per_second"] > 0
    printed = capsys.readouterr().out
    assert re.findall(r"^\| (\d [^|]+) \| (\d+) \| ([\d.]+) \|$", printed, re.MULTILINE) == [
        ("1 process, 1 thread", "100", "1.00"),
        ("1 process, 2 threads", "150", "1.50"),
        ("2 processes, 1 thread each", "180", "1.80"),
    ]
    shares = re.findall(r"^(adding up|waiting and adding up).*: ([\d.]+)% of", printed, re.M)
    assert len(shares) == 2
    assert all(0 < float(share) < 100 for _, share in shares)
