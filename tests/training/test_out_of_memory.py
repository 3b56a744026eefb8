"""A batch that does not fit into the memory of a GPU stops training."""

import copy

import pytest
import torch
from tiny_training import tiny_trainer

import seq2seq.training.updates
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.training.losses import training_loss


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
    for rows in trainer.groups_of_epoch()[0]:
        length = int(trainer.data.train.epoch(0).target_rows.lengths(rows).max()) + 1
        assert f"{len(rows)} x {length} target tokens" in text
    for key in ("training.batching.size=4", "accumulation=2", "data.max_length"):
        assert key in text
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])
