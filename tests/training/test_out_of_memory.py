"""A batch that doesn't fit into the memory of a GPU stops training or is left out, exactly."""

import copy
import json
import logging

import pytest
import torch
from tiny_training import tiny_run, tiny_trainer

import seq2seq.training.updates
from seq2seq.data.batching import collate
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.training.loss import training_loss
from seq2seq.training.updates import Updater

SKIP = "training.on_out_of_memory=skip"


@pytest.fixture
def fail_in(monkeypatch):
    """Return a function that makes the n-th backward pass run out of memory, once."""

    def set_up(number: int) -> None:
        calls: list[int] = []

        def loss(*arguments, **keywords):
            calls.append(1)
            result = training_loss(*arguments, **keywords)
            if len(calls) == number:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return result

        monkeypatch.setattr(seq2seq.training.updates, "training_loss", loss)

    return set_up


def test_stop_names_the_batches_their_tokens_and_the_keys(tmp_path, fail_in):
    trainer = tiny_trainer(tmp_path, "training.accumulation=2")
    before = copy.deepcopy(trainer.model.state_dict())
    fail_in(2)

    with pytest.raises(DeviceMemoryError) as caught:
        trainer.train()

    text = str(caught.value)
    assert text.startswith("update 1: the memory of a GPU is too small for ") and "\n" not in text
    for rows in trainer._groups_of_epoch()[0]:
        length = int(trainer.data.train.epoch(0).target_rows.lengths(rows).max()) + 1
        assert f"{len(rows)} x {length} target tokens" in text
    for key in ("training.batching.size=4", "accumulation=2", "on_out_of_memory=skip"):
        assert key in text
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_skip_leaves_weights_and_optimizer_as_they_were(tmp_path, fail_in):
    trainer = tiny_trainer(tmp_path, SKIP, "training.accumulation=2")
    groups = trainer._groups_of_epoch()
    trainer._update(groups[0])
    weights = copy.deepcopy(trainer.model.state_dict())
    state = copy.deepcopy(trainer.updater.state())
    tokens = trainer.progress.target_tokens
    fail_in(2)  # the first batch has left gradients

    trainer._update(groups[1])

    assert trainer.progress.update == 2 and trainer.progress.skipped_updates == 1
    assert trainer.progress.target_tokens == tokens
    assert trainer.progress.interval.updates == 1
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, weights[name])
    torch.testing.assert_close(trainer.updater.state(), state, rtol=0, atol=0)


def test_a_run_with_skipped_updates_counts_them_and_warns(tmp_path, fail_in, caplog):
    fail_in(3)

    with caplog.at_level(logging.WARNING):
        tiny_run(tmp_path, SKIP, "training.max_epochs=1")

    results = json.loads((tmp_path / "runs" / "tiny" / "results.json").read_text())
    assert (results["updates"], results["skipped_updates"]) == (6, 1)
    [warning] = [each.getMessage() for each in caplog.records if "GPU" in each.getMessage()]
    assert warning.startswith("update 3: ") and warning.endswith("; the update is skipped")
    assert "on_out_of_memory" not in warning


class _TwoProcesses:
    """Sums over two processes, of which the other one sends given numbers."""

    def __init__(self, others: float) -> None:
        self.others = others

    def __call__(self, tensors) -> None:
        for each in tensors:
            each[-1] += self.others


@pytest.mark.parametrize("is_own", [True, False])
def test_all_processes_skip_if_one_is_short_of_memory(tmp_path, fail_in, monkeypatch, is_own):
    """No process leaves out a sum that the others wait for."""
    trainer = tiny_trainer(tmp_path, SKIP)
    trainer.ranks = trainer.ranks._replace(world_size=2)
    updater = trainer.updater = Updater(
        trainer.config, model=trainer.model, numerics=trainer.numerics, ranks=trainer.ranks
    )
    sums = []
    other = _TwoProcesses(0.0 if is_own else 1.0)
    monkeypatch.setattr(
        seq2seq.training.updates,
        "sum_over_processes",
        lambda tensors: (sums.append("results"), other(tensors)),
    )
    monkeypatch.setattr(
        seq2seq.training.updates, "sum_gradients", lambda model: sums.append("gradients")
    )
    before = copy.deepcopy(trainer.model.state_dict())
    if is_own:
        fail_in(1)
    batch = trainer._groups_of_epoch()[0][0]
    collated = collate(trainer.data.train.epoch(0), batch)

    result = updater.update_weights([collated], update=1, learning_rate=0.1, num_tokens=20)

    assert result is None
    assert sums == ["results", "gradients"]
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])
