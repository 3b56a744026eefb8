"""A whole run leaves what design.md promises, and says how to go on."""

import json
import logging

import pytest
import torch
from tiny_training import (
    read_scalars,
    read_tags,
    tiny_config,
    tiny_run,
    write_corpus,
)

from seq2seq.config.schema import load_config
from seq2seq.config.serialization import load_saved_config
from seq2seq.inference.translator import Translator
from seq2seq.training.run import run_training
from seq2seq.training.updates import Updater

OVERRIDES = ("training.max_epochs=2", "training.validation.num_samples=2")
ATTENTION = {"attention_entropy", "attention_coverage", "attention_sharpness"}
"""what results say of a model's attention"""
NEXT_STEPS = {"translate": "python translate.py checkpoint=tiny", "look": "tensorboard"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def said(folder):
    """Train once; return what was said on stderr."""
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("tqdm.tqdm.write", lambda text, file: lines.append(text))
        config = tiny_config(folder, *OVERRIDES)
        run_training(config, folder / "runs" / "tiny", next_steps=NEXT_STEPS)
    return "\n".join(lines)


@pytest.fixture
def run(folder, said):
    return folder / "runs" / "tiny"


def test_a_run_directory_holds_what_was_promised(run):
    names = {path.name for path in run.iterdir()}

    assert names == {
        "best.pt",
        "config.yaml",
        "last.pt",
        "results.json",
        "tensorboard",
        "test.hyp",
        "test.ref",
        "train.log",
    }


def test_results_hold_what_was_promised(run):
    results = json.loads((run / "results.json").read_text())

    promised = {
        "updates",
        "epochs",
        "seconds",
        "target_tokens",
        "target_tokens_per_second",
        "parameters",
        "device",
        "precision",
        "attention",
        "valid",
        "test",
    }
    assert promised <= results.keys()
    scores = {"bleu", "chrf", "ter", "signature", "loss", "perplexity"} | ATTENTION
    assert scores <= results["valid"].keys()
    assert scores <= results["test"].keys()
    assert "aer" not in results["test"]  # files hold no gold alignments
    assert results["updates"] == 12
    assert results["epochs"] == 2.0
    text = (run.parent.parent / "b.train").read_text()
    assert results["target_tokens"] == 2 * len(text)  # a line end for each EOS
    assert results["attention"] == "additive"
    assert results["precision"] == "fp32"
    assert results["device"].startswith("cpu")
    state = torch.load(run / "best.pt", weights_only=True)["model"]
    sizes = {value.data_ptr(): value.numel() for value in state.values()}  # shared ones once
    assert results["parameters"] == sum(sizes.values())


def test_scored_lines_are_those_of_the_best_checkpoint(run):
    references = (run / "test.ref").read_text().splitlines()
    hypotheses = (run / "test.hyp").read_text().splitlines()

    assert references == (run.parent.parent / "b.test").read_text().splitlines()
    config = load_saved_config(run / "config.yaml")
    translator = Translator.load(
        str(run), device=config.training.device, precision=config.training.precision
    )
    sources = (run.parent.parent / "a.test").read_text().splitlines()
    translated = translator.translate(iter(sources), config.decoding, batch_size=2)
    assert [each.hypotheses[0].text for each in translated] == hypotheses


def test_the_saved_configuration_comes_back(run, folder):
    saved = load_saved_config(run / "config.yaml")

    assert saved.training.max_epochs == 2
    assert saved.run_name == "tiny"


def test_the_score_its_signature_and_the_next_commands_are_said(said, run):
    assert "test BLEU " in said
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in said
    assert f"\nNext:\n  translate  {NEXT_STEPS['translate']}\n  look       tensorboard" in said
    sources = (run.parent.parent / "a.test").read_text().splitlines()
    assert all(f"  a  {source}" in said for source in sources)


def test_the_log_holds_what_was_said_from_the_beginning(said, run):
    log = (run / "train.log").read_text()

    for line in said.splitlines():
        assert line in log


def test_tensorboard_holds_curves_texts_maps_and_hyperparameters(run):
    tags = read_tags(run / "tensorboard")

    for index in range(2):
        assert f"text/valid_{index}/text_summary" in tags
        assert f"attention/valid_{index}" in tags
    assert "text/valid_2/text_summary" not in tags
    assert "_hparams_/session_start_info" in tags
    curves = read_scalars(run / "tensorboard")
    results = json.loads((run / "results.json").read_text())
    best = max(curves["valid/bleu"], key=curves["valid/bleu"].__getitem__)  # the first of equals
    assert curves["test/bleu"] == pytest.approx({best: results["test"]["bleu"]})
    assert curves["test/chrf"] == pytest.approx({best: results["test"]["chrf"]})


def test_parts_that_do_not_fit_are_refused_before_data_are_read(tmp_path):
    config = load_config(
        "attention=none", "decoding=beam", "decoding.coverage_penalty=0.2", "data.grammar=missing"
    )

    with pytest.raises(ValueError, match=r"decoding\.coverage_penalty=0\.2 needs attention"):
        run_training(config, tmp_path / "run")


def test_a_run_that_is_there_is_refused_before_anything_is_written(run, folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    with pytest.raises(ValueError, match="holds a run already"):
        tiny_run(folder, *OVERRIDES)

    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_same_seed_gives_the_same_run_and_another_another(run, folder):
    weights = {}
    for name, seed in (("again", 1), ("other", 2)):
        path = folder / "runs" / name
        run_training(tiny_config(folder, "training.max_epochs=2", f"seed={seed}"), path)
        weights[name] = torch.load(path / "best.pt", weights_only=True)["model"]

    first = torch.load(run / "best.pt", weights_only=True)["model"]
    assert all(torch.equal(weights["again"][name], value) for name, value in first.items())
    assert not all(torch.equal(weights["other"][name], value) for name, value in first.items())


def test_gold_alignments_are_scored_where_the_data_have_them(tmp_path):
    config = load_config(
        "tokenizer=characters",
        "data.num_train=12",
        "data.num_valid=3",
        "data.num_test=2",
        f"data.cache_dir='{tmp_path}/cache'",
        f"checkpoint_dir='{tmp_path}'",
        "training.max_updates=1",
        "training.device=cpu",
        "training.precision=fp32",
        "training.validation.num_samples=0",
        "model.encoder.hidden_size=4",
        "model.decoder.hidden_size=4",
        "attention=multihead",
        "attention.size=4",
        "attention.num_heads=2",
        "decoding.max_length_ratio=0",
    )

    run_training(config, tmp_path / "run")

    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert 0 <= results["test"]["aer"] <= 1
    assert 0 <= results["valid"]["aer_of_diagonal"] <= 1
    curves = read_scalars(tmp_path / "run" / "tensorboard")
    assert curves["valid/alignment_error_rate"][1] == pytest.approx(results["valid"]["aer"])
    for head in (1, 2):
        assert 0 <= curves[f"valid/attention/alignment_error_rate/head_{head}"][1] <= 1


@pytest.mark.parametrize(("asked", "taken"), [("auto", "fp32"), ("bf16", "bf16")])
def test_a_small_model_computes_in_bf16_only_where_that_is_asked_for(
    tmp_path, monkeypatch, asked, taken
):
    monkeypatch.setattr("seq2seq.runtime.numerics.cpu_has_amx", lambda: True)
    tiny_run(tmp_path, f"training.precision={asked}", "training.max_updates=1")

    results = json.loads((tmp_path / "runs" / "tiny" / "results.json").read_text())
    assert results["precision"] == taken


def test_results_without_attention_say_nothing_of_it(tmp_path):
    tiny_run(tmp_path, "attention=none", "training.max_updates=1")

    results = json.loads((tmp_path / "runs" / "tiny" / "results.json").read_text())
    assert results["attention"] == "none"
    assert results["valid"].keys().isdisjoint(ATTENTION)
    assert "valid/attention/heads" not in read_tags(tmp_path / "runs" / "tiny" / "tensorboard")


def test_an_error_in_the_data_leaves_no_run_directory(tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "b.test").write_text("one line\n")

    with pytest.raises(ValueError, match="3 lines but"):
        tiny_run(tmp_path)

    assert not (tmp_path / "runs").exists()


def test_resuming_before_the_first_checkpoint_says_that_it_starts_anew(
    tmp_path, monkeypatch, caplog
):
    class Killed(BaseException):
        pass

    def make(self, *arguments, **keywords):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Updater, "make", make)
        tiny_run(tmp_path, "training.max_updates=1")
    with caplog.at_level(logging.INFO):
        tiny_run(tmp_path, "training.max_updates=1", "resume=true")

    assert "no checkpoint was written yet; the run starts anew" in caplog.text
    assert (tmp_path / "runs" / "tiny" / "results.json").exists()
