"""The benchmark of translating tabulates what it says, on a checkpoint of no size."""

import gzip
import re

import pytest
import torch
from tiny_translator import (
    BEAM,
    GREEDY,
    SENTENCES,
    make_translate_config,
    make_translator,
    write_checkpoint,
)

from benchmarks.translate_cases import Case, Command, WithoutAttention, ask_peer, in_turn
from benchmarks.translate_speed import main
from seq2seq.evaluation.metrics import score
from seq2seq.runtime.numerics import Precision

REFERENCES = ["a dog", "b", "c", "d e f", "", "yes", "no and yes", "a child"]
PEER = 'echo "loading"; echo "fake translate, beam {}: 10.0 sentences/s (1.0 s for 10)"'


@pytest.fixture
def bench(tmp_path, capsys):
    """Return what runs the benchmark and reads its tables: the cells of their rows."""
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


def test_each_search_has_its_speed_and_bleu_and_the_ratio_to_its_peer(bench):
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


def test_other_tables_have_a_row_for_each_thing_that_is_compared(bench):
    _, tables = bench("--only=attention,beam,length", "--repeats=1", "--lines=7")

    attention, beams, lengths = ([row[0] for row in table] for table in tables)
    assert attention == ["fp32", "int8"]
    assert beams == ["1", "5", "10", "20"]
    # Characters with EOS, 1, 3, 3, 5, 12, 15 and 30, cut after 1, 2, 4 and 5 of 7 sentences.
    assert lengths == ["1", "3", "4", "12", "22.5"]
    assert float(tables[1][2][2]) == pytest.approx(10 * float(tables[1][2][3]), abs=0.01)


def test_start_is_warm_and_cold(bench, monkeypatch):
    called = []
    monkeypatch.setattr(Command, "__call__", lambda command: called.append(command.precision))

    _, (rows,) = bench("--only=start", "--repeats=1", "--lines=3")

    assert [row[0] for row in rows] == ["fp32", "int8"]
    assert called == [Precision.fp32, Precision.int8]


def test_a_table_that_is_not_there_is_refused(bench, capsys):
    with pytest.raises(SystemExit):
        bench("--only=speed,spede")

    assert "--only spede: the tables are speed,attention" in capsys.readouterr().err


def test_a_peer_that_says_no_speed_is_refused():
    with pytest.raises(SystemExit, match="printed no NAME, beam SIZE: X sentences/s"):
        ask_peer("echo 10.0 sentences/s")


def test_runs_are_made_in_turn():
    made = []

    taken = in_turn([lambda: made.append("a"), lambda: made.append("b")], repeats=3)

    assert made == ["a", "b"] * 3
    assert [len(seconds) for seconds in taken] == [3, 3]


def test_without_attention_the_same_texts_come_without_weights():
    case = Case(make_translator(), SENTENCES, BEAM, 3)
    observed = Observed(case)

    texts = WithoutAttention(observed)()

    assert texts == case()
    assert [each.best.attention_weights.shape[2] for each in observed.found if each.source_ids] == [
        0
    ] * 6


class Observed:
    """A case that keeps what it found."""

    def __init__(self, case):
        self._case = case

    def __call__(self):
        case = self._case
        self.found = case.translator(case.lines, case.decoding, batch_size=case.batch_size)
        return [each.text for each in self.found]


@pytest.mark.slow
def test_the_command_translates_what_was_typed(tmp_path):
    config = make_translate_config(write_checkpoint(tmp_path / "run"))

    answer = Command(config, Precision.int8)()

    assert answer.count("\n") == 1
