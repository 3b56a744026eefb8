import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_training import saved_weights, tiny_run

from seq2seq.config.schema import load_config
from seq2seq.config.serialization import load_saved_config
from seq2seq.data.batching import IdRows
from seq2seq.evaluation import confidence
from seq2seq.evaluation.measures import (
    Sentences,
    measure,
    outcomes,
    score_texts,
    total_scores,
)
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.inference.translator import Translator
from seq2seq.training.results import bleu_of_words, describe_outcome
from seq2seq.training.run_directory import RunDirectory

ATTENTION = {"entropy", "coverage", "sharpness", "end", "backward"}
"""Keys of the statistics of attention."""


def test_results_have_all_measurements(run):
    results = json.loads((run / "results.json").read_text())

    assert {"seconds", "target_tokens_per_second", "training_data"} <= results.keys()
    scores = {"bleu", "chrf", "ter", "signature", "loss", "perplexity"} | ATTENTION
    assert scores <= results["valid"].keys()
    assert scores <= results["test"].keys()
    assert "aer" not in results["test"]  # files hold no gold alignments
    [head] = results["test"]["heads"]
    assert head["entropy"] == results["test"]["entropy"]
    assert "aer" not in head
    assert results["updates"] == 12
    assert results["best_update"] in {6, 12}
    assert results["epochs"] == 2.0
    text = (run.parent.parent / "b.train").read_text()
    assert results["target_tokens"] == 2 * len(text)  # a line end for each EOS
    assert results["attention"] == "additive"
    assert results["precision"] == "fp32"
    assert results["device"].startswith("cpu")
    weights = saved_weights(run / "best.pt").values()
    sizes = {value.data_ptr(): value.numel() for value in weights}  # shared ones once
    assert results["parameters"] == sum(sizes.values())


def test_the_expected_chrf_is_fitted_on_the_validation_set_and_kept(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(confidence, "LEAST_PAIRS", 5)
    monkeypatch.setattr(confidence, "LEAST_CORRELATION", -1)

    with caplog.at_level("INFO"):
        tiny_run(tmp_path)

    run = tmp_path / "runs" / "tiny"
    results = json.loads((run / "results.json").read_text())
    line = load_checkpoint(run).confidence
    assert results["confidence"] == line._asdict()
    assert results["test"]["certainty_correlation"] == pytest.approx(
        confidence.rank_correlation(*outcomes(RunDirectory(run).read_statistics("test")))
    )
    found = [
        each.best
        for each in Translator.load(run, device="cpu")((run / "valid.src").read_text().splitlines())
    ]
    certainty = [(each.log_probability, len(each.sentences[0].tokens)) for each in found]
    sentences = Sentences(
        translations=[each.text for each in found],
        references=[(run / "valid.ref").read_text().splitlines()],
        certainty=certainty,
    )
    translated = outcomes(measure(sentences, ["certainty", "chrf"]))
    assert line == pytest.approx(confidence.fit_confidence(translated), abs=1e-3)
    assert "expected chrF: rank correlation" in caplog.text


@pytest.mark.parametrize("split", ["valid", "test"])
def test_scored_lines_are_translations_of_the_best_checkpoint(run, split):
    corpus = run.parent.parent
    hypotheses = (run / f"{split}.hyp").read_text().splitlines()

    assert (run / f"{split}.src").read_bytes() == (corpus / f"a.{split}").read_bytes()
    assert (run / f"{split}.ref").read_bytes() == (corpus / f"b.{split}").read_bytes()
    assert not (run / f"{split}.gold").exists()  # files hold no gold alignments
    config = load_saved_config(run / "config.yaml")
    translator = Translator.load(
        str(run), device=config.training.device, precision=config.training.precision
    )
    sources = (corpus / f"a.{split}").read_text().splitlines()
    translated = translator.translate(iter(sources), config.decoding, batch_size=2)
    assert [each.hypotheses[0].text for each in translated] == hypotheses


def test_the_statistics_of_each_sentence_add_up_to_the_results(run):
    results = json.loads((run / "results.json").read_text())

    for split in ("valid", "test"):
        found = RunDirectory(run).read_statistics(split)
        lines = (run / f"{split}.ref").read_text().splitlines()
        maps = [found.pop(f"map_{row}") for row in range(len(lines))]
        assert [len(rows) for rows in found.values()] == [len(lines)] * len(found)
        for name, score in total_scores(found).items():
            assert score == results[split][name]
        entropies = [-np.sum(each * np.log(each, where=each > 0, out=0 * each)) for each in maps]
        mean = sum(entropies) / sum(map(len, maps))
        assert mean == pytest.approx(results[split]["entropy"], rel=1e-5)


def test_scores_and_samples_are_logged(log_lines, run):
    assert "test BLEU " in log_lines
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in log_lines
    sources = (run.parent.parent / "a.test").read_text().splitlines()
    assert all(f"  a  {source}" in log_lines for source in sources)


@pytest.mark.parametrize(("asked", "taken"), [("auto", "fp32"), ("bf16", "bf16")])
def test_a_small_model_uses_bf16_only_on_request(tmp_path, monkeypatch, asked, taken):
    monkeypatch.setattr("seq2seq.runtime.numerics.cpu_has_amx", lambda: True)
    tiny_run(tmp_path, f"training.precision={asked}", "training.max_updates=1")

    results = json.loads((tmp_path / "runs" / "tiny" / "results.json").read_text())
    assert results["precision"] == taken


@pytest.mark.parametrize(
    ("scores", "last_loss", "schedule", "expected"),
    [
        (
            [0.0],
            1e29,
            "cosine",
            "diverged: the valid loss is 1e+29, and guessing gives 4.61",
        ),
        ([0.0, 0.0, 0.0], 4.7, "cosine", "diverged: the valid loss is 4.7, and"),
        ([9.0, 20.0, 0.0], math.nan, "constant", "diverged: the valid loss is nan, and"),
        ([9.0, 20.0, 8.0], 2.5, "cosine", "unstable: valid BLEU fell from 20.0 to 8.0; lower"),
        ([0.0, 0.0, 0.0], 2.1, "cosine", "near 0, and the valid loss does not fall: lower"),
        ([0.0, 0.1, 0.0], 2.1, "cosine", "near 0, and the valid loss does not fall: lower"),
        ([9.0], 1.0, "cosine", "too few validations to tell"),
        ([0.0, 0.1, 0.2], 1.0, "cosine", "valid BLEU is near 0, so train for more updates"),
        ([9.0, 20.0, 20.2], 2.1, "cosine", "rose by 0.2 in the last third, so more text"),
        ([9.0, 20.0, 19.0], 1.9, "constant", "rose by 0.0 in the last third, so more text"),
        ([9.0, 20.0, 20.2], 1.9, "cosine", "rose by 0.2 in the last third, as the learning rate"),
        ([9.0, 20.0, 22.0], 1.9, "cosine", "still rose by 2.0 in the last third: train a new run"),
        ([9.0, 20.0, 22.0], 2.1, "constant", "rose by 2.0 in the last third: raise the budget"),
        ([9.0, 90.0, 98.0], 1.9, "cosine", "98.0, so hardly anything is left to learn"),
    ],
)
def test_the_end_says_whether_more_training_would_help(scores, last_loss, schedule, expected):
    losses = [*[3.0, 2.0][: len(scores) - 1], last_loss]
    history = [{"bleu": bleu, "loss": loss} for bleu, loss in zip(scores, losses, strict=True)]
    config = load_config("data=grammar", f"training.schedule.name={schedule}")
    trainer = SimpleNamespace(
        config=config,
        data=SimpleNamespace(tokenizers=SimpleNamespace(target=range(100))),
        progress=SimpleNamespace(epochs=2.4),
        directory=SimpleNamespace(read_validations=lambda: history),
    )

    found = describe_outcome(trainer, 22.4)

    first, second = found.splitlines()
    assert first.startswith("2.4 of 2 epochs; ")
    assert expected in first
    assert second == "BLEU 22: the gist is clear, with many errors, on text like this"
    trainer.progress.epochs = 1.4
    early, _ = describe_outcome(trainer, 22.4).splitlines()
    told_at_once = ("diverged", "unstable", "hardly")
    assert ("was read 1.4 times" in early) is not any(each in early for each in told_at_once)


def test_sentences_of_copied_spans_do_not_raise_the_bleu_that_is_judged():
    texts = ["a dog runs in the park", "KR-7", "see KR-7"]
    references = ["a dog runs in the snow", "KR-7", "look at KR-7"]
    statistics = measure(Sentences(translations=texts, references=[references]), ["bleu"])
    rows = IdRows.of([[4, 5, 6, 7, 8, 9], [20], [10, 11, 20]])  # 20 is a symbol
    data = SimpleNamespace(encoded=SimpleNamespace(target_rows=rows))

    found = bleu_of_words(data, SimpleNamespace(statistics=statistics), [20, 21])

    assert found == pytest.approx(score_texts(texts[::2], references[::2])["bleu"])
    assert found < score_texts(texts, references)["bleu"]
