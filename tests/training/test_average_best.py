import dataclasses
import json

import pytest
import torch
from tiny_training import tiny_run

from seq2seq.training.evaluator import Evaluator

OVERRIDES = (
    "training.max_updates=4",
    "training.validation.every_updates=1",
    "training.validation.metric=loss",
    "training.validation.keep_best=2",
    "training.average_best=true",
)


def run(folder, monkeypatch, losses, *overrides):
    """Train with the given losses of validation, then of the average; return the results."""
    original, left = Evaluator.evaluate, iter(losses)

    def evaluate(self, model, *, ter):
        evaluation = original(self, model, ter=ter)
        return evaluation if ter else dataclasses.replace(evaluation, loss=next(left))

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "evaluate", evaluate)
        tiny_run(folder, *OVERRIDES, *overrides)
    return json.loads((folder / "runs" / "tiny" / "results.json").read_text())


def weights(folder, name):
    return torch.load(folder / "runs" / "tiny" / name, weights_only=True)["model"]


def is_equal(first, second):
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize(
    ("loss", "is_best", "origin"), [(1.5, True, "average.pt"), (2.0, False, "step-2.pt")]
)
def test_best_is_the_average_only_if_that_is_better(tmp_path, monkeypatch, loss, is_best, origin):
    results = run(tmp_path, monkeypatch, [4.0, 2.0, 5.0, 3.0, loss])

    assert results["average"]["updates"] == [2, 4]
    assert results["average"]["is_best"] == is_best
    assert results["average"]["valid"]["loss"] == loss
    average, kept = (
        weights(tmp_path, "average.pt"),
        [weights(tmp_path, f"step-{update}.pt") for update in (2, 4)],
    )
    for name, value in average.items():
        torch.testing.assert_close(value, (kept[0][name] + kept[1][name]) / 2)
    assert is_equal(weights(tmp_path, "best.pt"), weights(tmp_path, origin))


def test_a_longer_budget_averages_again_and_may_return_to_a_single_checkpoint(
    tmp_path, monkeypatch
):
    constant = "training.schedule.name=constant"
    run(tmp_path, monkeypatch, [4.0, 2.0, 5.0, 3.0, 1.5], constant)

    resumed = (constant, "training.max_updates=5", "resume=true")
    results = run(tmp_path, monkeypatch, [2.5, 9.0], *resumed)

    assert results["average"]["updates"] == [2, 5]
    assert not results["average"]["is_best"]
    assert is_equal(weights(tmp_path, "best.pt"), weights(tmp_path, "step-2.pt"))


def test_one_validation_has_no_average(tmp_path, monkeypatch):
    results = run(tmp_path, monkeypatch, [4.0], "training.max_updates=1")

    assert "average" not in results
    assert not (tmp_path / "runs" / "tiny" / "average.pt").exists()
