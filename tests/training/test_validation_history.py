import json

import pytest
import torch
from tiny_training import tiny_run, tiny_trainer

from seq2seq.analysis.run import attend
from seq2seq.inference.translator import Translator
from seq2seq.training import validation_history as module
from seq2seq.training.validation_history import ValidationHistory


def read(directory):
    return json.loads(directory.validations.read_text())


@pytest.fixture
def trainer(tmp_path):
    return tiny_trainer(tmp_path, "training.validation.num_samples=2")


def test_every_validation_is_kept_with_the_maps_of_the_first_pairs(tmp_path):
    tiny_run(tmp_path, "training.validation.num_samples=2")
    run = tmp_path / "runs" / "tiny"

    content = json.loads((run / "validations.json").read_text())

    results = json.loads((run / "results.json").read_text())
    kept = content["validations"]
    assert [each["update"] for each in kept] == [6, 12, 18]
    assert results["validations"] == [
        {name: value for name, value in each.items() if name != "maps"} for each in kept
    ]
    [best] = [each for each in kept if each["update"] == results["best_update"]]
    assert best["loss"] == pytest.approx(results["valid"]["loss"], rel=1e-6)
    for name in ("entropy", "coverage", "sharpness", "end", "backward"):
        assert best[name] == pytest.approx(results["valid"][name], abs=1e-6)
    lines = [(run / f"valid.{kind}").read_text().splitlines()[:2] for kind in ("src", "ref")]
    attention = attend(Translator.load(run / "last.pt"), zip(*lines, strict=True))
    assert [pair["source"] for pair in content["pairs"]] == attention.source_tokens
    assert [pair["target"] for pair in content["pairs"]] == attention.target_tokens
    for found, weights in zip(kept[-1]["maps"], attention.weights, strict=True):
        expected = torch.from_numpy(weights).mean(0)
        torch.testing.assert_close(torch.tensor(found) / 100, expected, atol=0.0051, rtol=0)


def test_a_run_that_was_killed_after_a_validation_keeps_each_once(trainer):
    evaluation = trainer.evaluator.evaluate(trainer.model, slow=False)
    history = ValidationHistory(trainer.directory)
    for update in (6, 12, 18):
        history.add(evaluation, update=update)
    expected = trainer.directory.validations.read_bytes()

    resumed = ValidationHistory(trainer.directory)
    resumed.load()  # from the last.pt of update 6
    for update in (12, 18):
        resumed.add(evaluation, update=update)

    assert trainer.directory.validations.read_bytes() == expected
    assert [each["update"] for each in resumed.scores] == [6, 12, 18]


def test_of_many_validations_some_keep_their_maps(trainer, monkeypatch):
    monkeypatch.setattr(module, "MAX_MAPS", 4)
    evaluation = trainer.evaluator.evaluate(trainer.model, slow=False)
    history = ValidationHistory(trainer.directory)

    for update in range(1, 9):
        history.add(evaluation, update=update)

    kept = read(trainer.directory)["validations"]
    assert [each["update"] for each in kept] == list(range(1, 9))
    assert [each["update"] for each in kept if "maps" in each] == [1, 5, 7, 8]


def test_large_maps_and_maps_of_a_model_without_attention_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WEIGHTS", 1)
    for name, maps in (("additive", [[], []]), ("none", None)):
        folder = tmp_path / name
        trainer = tiny_trainer(folder, f"attention={name}", "training.validation.num_samples=2")
        evaluation = trainer.evaluator.evaluate(trainer.model, slow=False)

        trainer.history.add(evaluation, update=1)

        [kept] = read(trainer.directory)["validations"]
        assert kept.get("maps") == maps


def test_a_damaged_history_begins_anew_with_a_warning(trainer, caplog):
    trainer.directory.validations.write_text("{}")

    trainer.history.load()

    assert trainer.history.scores == []
    assert "validations.json is damaged" in caplog.text
