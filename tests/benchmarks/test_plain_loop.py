"""The step loop of the training benchmark computes the loss and the update of the package."""

import pytest
import torch
from tiny_training import tiny_config, tiny_numerics

from benchmarks.plain_loop import PlainUpdater, plain_loss
from seq2seq.config.schema import build_model
from seq2seq.data.batching import collate
from seq2seq.training.losses import training_loss
from seq2seq.training.preparation import prepare_data


@pytest.fixture
def config(tmp_path):
    return tiny_config(tmp_path, "model.dropout=0")


@pytest.fixture
def batch(config):
    return collate(prepare_data(config).train, [0, 3, 7])


@pytest.fixture
def model(config):
    torch.manual_seed(2)
    return build_model(config, source_vocabulary_size=9, target_vocabulary_size=9)


def test_loss_is_that_of_training(config, model, batch):
    loss = plain_loss(model, batch, label_smoothing=config.training.label_smoothing)

    expected = training_loss(model, batch, config.training).objective
    torch.testing.assert_close(loss, expected)


def test_update_reduces_the_loss(config, model, batch):
    updater = PlainUpdater(config, model=model, numerics=tiny_numerics(config))
    before = plain_loss(model, batch, label_smoothing=0.0)

    updater.update_weights(
        [batch], update=1, learning_rate=1e-2, num_tokens=int(batch.target_mask.sum())
    )

    assert plain_loss(model, batch, label_smoothing=0.0) < before
