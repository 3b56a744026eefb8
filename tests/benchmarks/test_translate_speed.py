"""The translation benchmark prints its tables, for a tiny checkpoint."""

import gzip
import re

import pytest
import torch
from tiny_translator import GREEDY, SENTENCES, make_translator, write_checkpoint

from benchmarks.translate_cases import Command
from benchmarks.translate_speed import main
from seq2seq.evaluation.metrics import score
from seq2seq.runtime.devices import Precision

REFERENCES = ["a dog", "b", "c", "d e f", "", "yes", "no and yes", "a child"]
PEER = 'echo "loading"; echo "fake translate, beam {}: 10.0 sentences/s (1.0 s for 10)"'


@pytest.fixture
def bench(tmp_path, capsys):
    """Return a function that runs the benchmark and returns its output and its tables' cells."""
    for name, lines in (("input", SENTENCES), ("reference", REFERENCES)):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    test_set = [f"{name}={tmp_path / name}.gz" for name in ("input", "reference")]
    checkpoint = write_checkpoint(tmp_path / "run")

    def run(*arguments):
        sizes = ["decoding.beam_size=3", "decoding.max_length_ratio=1.0", "--batch-sizes=2,5"]
        main([f"checkpoint={checkpoint}", *test_set, "device=cpu", *sizes, *arguments])
        printed = capsys.readouterr().out
        tables = re.findall(r"(?<=:\|\n)(?:\|.*\n)+", printed)
        return printed, [
            [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
            for table in tables
        ]

    return run


def test_each_search_has_speed_bleu_and_ratio_to_its_peer(bench):
    peers = [f"--peer-command={PEER.format(size)}" for size in (3, 1)]

    printed, (speeds, ratios) = bench("--only=speed", "--repeats=1", *peers)

    assert f"{torch.get_num_threads()} threads, torch {torch.__version__}, 8 lines" in printed
    searches = ["greedy", "beam 3, early_stopping=exact", "beam 3, early_stopping=first"]
    names = [f"{search}, {precision}" for search in searches for precision in ("fp32", "int8")]
    assert [row[0] for row in speeds] == names
    assert {row[2] for row in speeds} <= {"2", "5"}
    translations = make_translator().translate(SENTENCES, GREEDY)
    bleu = score([translation.text for translation in translations], REFERENCES).bleu
    assert float(speeds[0][3]) == pytest.approx(bleu, abs=0.01)
    asked = ["fake translate", "10.0"]  # before and after
    assert [row[:3] for row in ratios] == [[name, *asked] for name in names for _ in range(2)]
    assert float(ratios[0][3]) == pytest.approx(float(speeds[0][1]) / 10, abs=0.01)


def test_other_tables_have_a_row_per_case(bench):
    _, tables = bench("--only=attention,beam,length", "--repeats=1", "--lines=7")

    attention, beams, lengths = ([row[0] for row in table] for table in tables)
    assert attention == ["fp32", "int8"]
    assert beams == ["1", "5", "10", "20"]
    # Lengths 1, 3, 3, 5, 12, 15 and 30 with EOS, cut after 1, 2, 4 and 5 of 7 sentences.
    assert lengths == ["1", "3", "4", "12", "22.5"]
    assert float(tables[1][2][2]) == pytest.approx(10 * float(tables[1][2][3]), abs=0.01)


def test_start_runs_the_command_in_each_precision(bench, monkeypatch):
    called = []
    monkeypatch.setattr(Command, "__call__", lambda command: called.append(command.precision))

    _, (rows,) = bench("--only=start", "--repeats=1", "--lines=3")

    assert [row[0] for row in rows] == ["fp32", "int8"]
    assert called == [Precision.fp32, Precision.int8]


def test_unknown_table_is_refused(bench, capsys):
    with pytest.raises(SystemExit):
        bench("--only=speed,spede")

    assert "--only=spede must name tables of speed,attention" in capsys.readouterr().err


def test_input_without_reference_is_refused(bench):
    with pytest.raises(SystemExit, match="input=FILE and reference=FILE must be given together"):
        bench("reference=null")


def test_other_search_than_beam_is_refused():
    with pytest.raises(SystemExit, match="error: decoding=greedy must be beam; leave it out"):
        main(["checkpoint=none", "decoding=greedy"])
