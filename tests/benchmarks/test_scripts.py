"""Each benchmark runs to its end on a tiny model, and prints the rows that it promises."""

import dataclasses
import gzip
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import CHRF
from tiny_export import SENTENCES
from tiny_training import ROOT, corpus_overrides, write_corpus
from tiny_translator import write_checkpoint

from benchmarks.gpu.check import NAMES
from benchmarks.ingredient_speed import INGREDIENTS
from benchmarks.train_speed import FORMS, TYPES
from seq2seq import Translator
from seq2seq.evaluation.confidence import Confidence
from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow
SIZES = ("encoder.hidden_size=8", "decoder.hidden_size=16", "embedding_size=8")
PEER = "--peer-command=echo 'peer: 50 target tokens/s'"


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Return the overrides of a tiny training."""
    write_corpus(tmp_path)
    options = ["tokenizer=characters", "training.batching.size=4", "training.device=cpu"]
    return [*corpus_overrides(tmp_path), *options, *(f"model.{size}" for size in SIZES)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs a benchmark, and returns the rows of its tables and its text."""

    def run_script(name: str, *arguments: object) -> tuple[list[list[str]], str]:
        script = ROOT / "benchmarks" / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")
        printed = capsys.readouterr().out
        rows = re.findall(r"^\| (.+) \|$", "".join(re.split(r"(?m)^\|.*\n\|-.*\n", printed)), re.M)
        return [[cell.strip() for cell in row.split("|")] for row in rows], printed

    return run_script


def test_training_is_compared_by_form_type_kernels_and_with_a_peer(run, small):
    rows, printed = run("train_speed", "--intervals=1", PEER, *small)

    names = [row[0] for row in rows]
    assert names == [*FORMS, *TYPES, "luong, plain kernels", "plain step loop"]
    assert len(re.findall(r"times the peer's 50 target tokens/s", printed)) == 2


def test_ingredients_are_compared_with_the_base(run, tmp_path):
    sizes = ["data.num_train=200", "training.batching.size=60"]
    sizes += [f"data.cache_dir={tmp_path}/cache"]
    sizes += ["tokenizer.vocabulary_size=150", *(f"model.{size}" for size in SIZES)]

    rows, _ = run("ingredient_speed", "--intervals=1", *sizes)

    assert [row[0] for row in rows] == list(INGREDIENTS)


@pytest.mark.skipif(
    not hasattr(torch.backends.mkldnn, "matmul"), reason="torch cannot choose oneDNN"
)
def test_libraries_are_compared(run, small, monkeypatch):
    monkeypatch.setattr("seq2seq.runtime.numerics.onednn_is_faster", lambda: False)

    rows, _ = run("library_speed", *small)

    assert [row[0] for row in rows] == ["MKL", "oneDNN", "bf16"]


def test_processes_are_compared(run, small):
    rows, _ = run("process_speed", "--intervals=1", "--updates=2", *small)

    assert len(rows) == 3


def test_sums_of_gradients_are_compared_with_ddp(small):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [str(ROOT / "benchmarks" / "ddp_speed.py"), *small]

    printed = subprocess.run(
        [*torchrun, "--nproc-per-node=2", *script], stdout=subprocess.PIPE, text=True, check=True
    ).stdout

    assert re.findall(r"(?m)^\| (.+) \| \d+ \|$", printed) == [
        "sum_gradients",
        "DDP fp32",
        "DDP fp16 hook",
        "none",
    ]


@pytest.mark.parametrize(
    ("command", "found"),
    [("encoding", r"22 pairs in [\d.]+ s"), ("start", r"\d\.\d+ s")],
)
def test_data_is_timed(run, small, command, found):
    assert re.search(found, run("data_speed", "--repeats=1", command, *small)[1])


def test_a_large_corpus_is_written_with_its_cache_and_its_start_is_timed(run, small, tmp_path):
    for part in ("train", "valid"):
        for ours, language in (("a", "de"), ("b", "en")):
            packed = gzip.compress((tmp_path / f"{ours}.{part}").read_bytes())
            (tmp_path / f"{part}.{language}.gz").write_bytes(packed)
    large = ["large", tmp_path, "--pairs=49", f"--directory={tmp_path}/large"]

    _, printed = run("data_speed", "--repeats=1", *large, "tokenizer=characters")

    assert re.search(r"\d\.\d+ s", printed)
    assert (tmp_path / "large" / "train.de").read_text().count("\n") == 49


def test_what_needs_a_gpu_is_checked_and_measured_in_a_dry_run(run, small, tmp_path):
    parts = [name for name in NAMES if name != "tests"]  # they need a GPU
    folders = [f"--runs={tmp_path}/runs", f"--logs={tmp_path}/logs"]
    options = ["--device=cpu", "--seconds=3000", f"--parts={','.join(parts)}", *folders]

    rows, printed = run("gpu/check", *options, *small)

    endings = {name.strip("*"): ending for name, ending in rows if name.startswith("**")}
    assert {name: text[:6] for name, text in endings.items()} == dict.fromkeys(parts, "exit 0")
    assert "FAILED" not in printed
    assert "equal to the bit, resumed: equal to the bit" in printed


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Return a run with a test set."""
    path = write_checkpoint(tmp_path / "run")
    for name in ("test.src", "test.ref"):
        (path / name).write_text("".join(f"{line}\n" for line in SENTENCES))
    return path


def test_translation_is_timed_in_every_table(run, trained):
    files = [f"input={trained}/test.src", f"reference={trained}/test.ref", "device=cpu"]
    few = ["--repeats=1", "--batch-sizes=2,5", "decoding.max_length_ratio=1.0"]

    rows, _ = run("translate_speed", f"checkpoint={trained}", *files, *few)

    searches = ["greedy", "beam 5, early_stopping=exact", "beam 5, early_stopping=first"]
    speeds = [f"{search}, fp32" for search in searches]
    names = [row[0] for row in rows]
    assert names == [*speeds, "fp32"]


def test_an_exported_model_is_compared_with_its_checkpoint(run, checkpoint_path, exported, trained):
    lines = ["--input", trained / "test.src", "--reference", trained / "test.ref"]

    few = ["--single=2", "--repeats=1", "--batch-sizes", "2", "5"]
    peer = ["--peer-command", "echo Peer, beam 5: 50 sentences/s"]

    rows, _ = run("export_speed", checkpoint_path, exported, *lines, *few, *peer)

    assert len(rows) == 4 + 5 + 4 + 2
    assert ["Peer", "beam 5", "", "50"] in rows


def test_the_model_in_the_box_is_scored_and_its_start_timed(run, exported, tmp_path):
    for side in ("de", "en"):
        with gzip.open(tmp_path / f"valid.{side}.gz", "wt") as file:
            file.write("ein hund\nzwei\n")

    rows, printed = run("everyday", exported, tmp_path, "--repeats=1")

    names = ["greedy", "beam", "translate.py, one sentence", "import torch"]
    assert [row[0] for row in rows] == names
    assert all(float(row[1]) >= 0 for row in rows)
    assert printed.startswith(f"{exported}: ")


def test_the_service_is_timed_and_answers_rightly(run, trained):
    sizes = ["--clients=3", "--searches=beam 5", "--requests=6", "--repeats=1"]

    rows, _ = run("serve_speed", f"--checkpoint={trained}", *sizes, "device=cpu")

    assert [row[2] for row in rows] == ["no batching", "batching"]
    assert [row[-1] for row in rows] == ["0", "0"]


STAND_IN = """#!/bin/sh
case "$*" in
    *SentencePiece*) printf 'a\\t-1\\nb\\t-2\\n' > sp.vocab ;;
    *train*) grep -q 'voc_file: vocab.txt' "$4" && echo 'Tokens per Sec:  50, Lr: 1' ;;
    *translate*) grep -q 'beam_size: 5' "$4" && tr a-z A-Z ;;
esac
"""
"""An environment of JoeyNMT that translates by writing capitals."""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train"], "JoeyNMT: 50 target tokens/s\n"),
        (["translate", "--beam=5"], r"JoeyNMT, beam 5: -?[\d.]+ sentences/s, BLEU 100.00\n"),
    ],
)
def test_joeynmt_is_configured_and_its_results_are_read(run, tmp_path, arguments, expected):
    python = tmp_path / "work" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(0o755)
    (tmp_path / "work" / "venv" / "ready").touch()
    for part in ("train", "val", "test_2016_flickr"):
        for language, text in (
            ("de", b"ein hund und eine katze\n"),
            ("en", b"EIN HUND UND EINE KATZE\n"),
        ):
            (tmp_path / f"{part}.{language}.gz").write_bytes(gzip.compress(text * 2))

    _, printed = run("joeynmt", *arguments, f"--data={tmp_path}", f"--work={tmp_path}/work")

    assert re.fullmatch(expected, printed)


def test_messy_text_is_made_and_what_is_lost_of_it_is_counted(
    run, checkpoint_path, exported, trained, tmp_path
):
    lines = [trained / "test.src", trained / "test.ref"]
    run("raw_text", "make", *lines, tmp_path / "raw", "--test=5")

    options = [f"--folder={exported}", "--lines=3"]
    rows, _ = run("raw_text", "measure", checkpoint_path, tmp_path / "raw", *options)

    table = (tmp_path / "raw" / "export.tsv").read_bytes()
    assert table.startswith(b"\xef\xbb\xbfid\tde\ten\r\n")
    assert [row[0] for row in rows[-3:]] == ["command", "exported model", "service"]
    assert [row[2].split()[-1] for row in rows[4:-3]] == ["3", "5", *["50"] * 8]
    assert [row[1].split()[0] for row in rows[-3:]] == ["0", "0", "0"]


def test_copying_is_measured_for_each_kind_and_place(run, trained):
    rows, _ = run("copying", trained, "--split=test", "--lines=2")

    assert [row[0] for row in rows[:2]] == ["none", "tags around the sentence"]
    assert len(rows) == 7 and all(row[3].endswith(" of 2") for row in rows)


def sentence_chrf(text: str, reference: str) -> float:
    return CHRF().sentence_score(text, [reference]).score


def test_expected_quality_is_drawn_beside_the_observed_one(run, trained, tmp_path):
    line = Confidence(slope=0.0, intercept=50.0, spread=1.0, mean=40.0, first_fifth=40.0)
    checkpoint = load_checkpoint(trained)
    save_checkpoint(tmp_path / "best.pt", dataclasses.replace(checkpoint, confidence=line))
    sources = ["ein hund rennt", "zwei", "ein", "hund", "rennt"]
    translations = Translator.load(trained, device="cpu")(sources)
    scores = [sentence_chrf(found.text, "the dog runs") for found in translations]
    (tmp_path / "test.src").write_text("".join(f"{each}\n" for each in sources))
    (tmp_path / "test.ref").write_text("the dog runs\n" * 5)

    _, printed = run("reliability", tmp_path, f"--output={tmp_path}/diagram.png")

    assert "expected 50, 50, 50, 50, 50\n" in printed
    assert f"observed {', '.join(f'{each:.0f}' for each in scores)}\n" in printed
    assert (tmp_path / "diagram.png").read_bytes().startswith(b"\x89PNG")


def test_race_draws_a_panel_for_each_corpus(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    rows = ["corpus,system,seed,minutes,processor_minutes,bleu,chrf"]
    rows += [f"a de-en,{each},1,5,5.1,30.0,50.0" for each in ("seq2seq", "joeynmt")]
    rows += ["b de-en,seq2seq,1,15,15.2,20.0,40.0"]
    (tmp_path / "race.csv").write_text("\n".join(rows) + "\n")

    run("race", "chart", f"--table={tmp_path}/race.csv")

    assert (tmp_path / "race.png").stat().st_size > 5000
